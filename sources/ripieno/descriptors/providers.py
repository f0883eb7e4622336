"""One provider: an endpoint, and the capabilities of its models."""

import dataclasses
import fnmatch
import re
import shlex
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.durable import SCORE
from ripieno.descriptors.model_rows import ModelRow, Rows, lay_keys
from ripieno.descriptors.reader.alternatives import Alternatives, Choice, Variables, alternatives, variables_in
from ripieno.descriptors.reader.keys import UNSET, Key, Table, description_key
from ripieno.descriptors.reader.kinds import COUNT, Flag, Named, Number, Pattern, Several, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import NO_SOURCE, Problems, Source
from ripieno.descriptors.timeouts import BREAKER, TIMEOUTS
from ripieno.exceptions import Problem
from ripieno.jsonvalues import EMPTY, thaw
from ripieno.values import Value, uncompared

PROVIDER_NAME = Text(
    pattern=r"[a-z][a-z0-9_.-]{0,63}", shape="a name of lower-case letters, digits, _, . and -, beginning with a letter"
)


class ModelIdentity(Value, kw_only=True):
    """A provider and one of its models. A score is none; the hint says how to serve it."""

    expected: str = 'a provider and a model such as "house/small-1"'
    shape: str = r"[a-z][a-z0-9_.-]*/\S+"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and re.fullmatch(self.shape, value):
            return value
        hint = None
        if isinstance(value, str) and value.startswith(f"{SCORE}:"):
            score = shlex.quote(value.removeprefix(f"{SCORE}:"))
            hint = f"Serve the score with: ripieno rehearse {score}, which prints the provider to configure here."
        return refuse(self, value, path, problems, hint)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.shape})$"}


MODEL_IDENTITY = ModelIdentity()
MODEL_IDENTITIES = Several(MODEL_IDENTITY, 'models such as "house/small-1"', once=True)
#: Retries of a provider by default.
RETRIES = 2
_PROTOCOL = Text(pattern=r"[a-z][a-z0-9_-]*", shape="the name of a protocol")
_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", shape="the name of an HTTP header")


CAPABILITY_KEYS: tuple[Key, ...] = (
    Key("function_calling", Flag(), "Whether it has native calls; otherwise they are prompted.", True, False),
    Key("parallel_calls", Flag(), "Whether one message may have several calls.", True, False),
    Key("streaming", Flag(), "Whether it streams at all.", True, False),
    Key("stream_calls", Flag(), "Whether calls are complete in streams; false requests whole answers.", True, False),
    Key("json_mode", Flag(), "Whether it can enforce JSON.", False, True),
    Key("tool_choice", Flag(), "Whether it obeys a required or forced tool.", True, False),
    Key("strict", Flag(), "Whether it can enforce argument schemas.", False, True),
    Key("images_in_results", Flag(), "Whether results may have images.", False, True),
    Key(
        "reasoning_replay",
        Text(choices=("never", "turn", "always")),
        "When its reasoning is sent back: never, until the next user message, or always.",
        "never",
        "turn",
    ),
    Key("sampling", Flag(), "Whether it accepts temperature and top_p. If absent, its wire decides.", UNSET, False),
    Key("thinking_budgets", Flag(), "Whether reasoning effort is sent in tokens. If absent, as a word.", UNSET, True),
    Key("signature_placeholder", Text(), "Signature for calls of other models, if required.", UNSET, "none-was-made"),
    Key("custom_tools", Flag(), "Whether free-form tools are sent as such, not as functions of a text.", UNSET, False),
    Key("allowed_tools", Flag(), "Whether requests can list the tools that may be called.", False, True),
    Key("tool_search", Flag(), "Whether the provider searches tools itself, on wires that support it.", False, True),
    Key("stream_usage", Flag(), "Whether it can be asked to count tokens in a stream.", True, False),
    Key(
        "output_tokens_parameter",
        Text(choices=("max_completion_tokens", "max_tokens")),
        "The key that limits the tokens of an answer, if the wire has two.",
        "max_completion_tokens",
        "max_tokens",
    ),
    Key(
        "call_identifiers",
        Pattern(),
        "A regular expression that call identifiers must match. If absent, its wire decides.",
        UNSET,
        "[A-Za-z0-9]{9}",
    ),
    Key("text_calls", Flag(), "Whether the server leaves calls in the text.", False, True),
    Key(
        "text_form",
        Text(choices=("hermes", "qwen-coder", "invoke", "mistral", "llama", "glm")),
        "The format of calls for models without native calls.",
        "hermes",
        "qwen-coder",
    ),
    Key("output_tokens", COUNT, "Tokens of an answer, if the wire requires a number.", 4096, 8192),
    Key(
        "context", COUNT, "Tokens of its context: messages, tools and answer. If absent, it is unknown.", UNSET, 128_000
    ),
    Key("cache_breakpoints", Flag(), "Whether requests mark what to cache. If absent, its wire decides.", UNSET, False),
)
#: The default capabilities; the protocol decides about the others.
CAPABILITIES: frozendict[str, Any] = frozendict(
    {key.name: key.default for key in CAPABILITY_KEYS if key.default is not UNSET}
)


@uncompared("file", "layer")
class ProviderDescriptor(Value, kw_only=True):
    """One provider. ``capabilities``, ``timeouts`` and ``breaker`` have the given keys only.

    ``base_url``, ``api_key``, ``region``, ``project``, ``api_version`` and the values of ``headers`` are templates.
    ``api_key``, ``region``, ``project`` and headers may have alternatives: the first whose variables are set is used.
    """

    name: str
    protocol: str
    description: str = ""
    base_url: str | None = None
    api_key: Choice = None
    carrier: str | None = None
    headers: frozendict[str, Choice] = EMPTY
    cloud: str | None = None
    region: Choice = None
    project: Choice = None
    api_version: str | None = None
    retries: int | None = None
    timeouts: frozendict[str, float] = EMPTY
    breaker: frozendict[str, float] = EMPTY
    homepage: str | None = None
    capabilities: frozendict[str, Any] = EMPTY
    models: tuple[ModelRow, ...] = ()
    file: str | None = None
    layer: str = ""

    def capabilities_for(self, model: str) -> frozendict[str, Any]:
        """Every capability of a model: the first row that matches it, over the provider's, over the defaults."""
        return frozendict({**CAPABILITIES, **self.capabilities, **self.row_for(model)})

    def row_for(self, model: str) -> frozendict[str, Any]:
        """The capabilities of the first row that matches a model; empty if none does."""
        matching = (row.capabilities for row in self.models if fnmatch.fnmatchcase(model, row.match))
        return next(matching, EMPTY)

    @property
    def needs(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """Its needs of environment variables. A need has alternatives, and an alternative has variables.

        An alternative without variables is a plain text, so its need is always met. A header that may be left out is
        no need.
        """
        headers = (one for one in self.headers.values() if "" not in alternatives(one))
        choices = (self.api_key, self.base_url, self.region, self.project, self.api_version, *headers)
        needs = (tuple(map(variables_in, alternatives(choice))) for choice in choices)
        return tuple(dict.fromkeys(need for need in needs if any(need)))

    def mapping(self) -> dict[str, Any]:
        """The mapping of an equivalent file. Reading it gives an equal descriptor."""
        header = {name: getattr(self, name) for name in _HEADER_NAMES}
        return {
            "provider": {name: thaw(value) for name, value in header.items() if value not in (None, "", EMPTY)},
            **({"capabilities": dict(self.capabilities)} if self.capabilities else {}),
            **({"models": [{"match": row.match, **row.capabilities} for row in self.models]} if self.models else {}),
        }


_NAME = Key("name", PROVIDER_NAME, "Its name, before the slash.", required=True, example="house")
_PROTOCOL_KEY = Key("protocol", _PROTOCOL, "Its wire format.", required=True, example="prompted")
ENDPOINT_KEYS = (
    description_key("A description for people.", "The server in the cellar"),
    Key(
        "base_url",
        Variables(text=Text(pattern=r"(?:https?://|\{env:)[^\s]+", shape='a URL such as "https://example.org/v1"')),
        "Its URL. Only some clouds need none.",
        example="http://localhost:8080/v1",
    ),
    Key("api_key", Alternatives(), "Its key, best as a variable.", example=["{env:HOUSE_KEY}", "{env:HOUSE_TOKEN}"]),
    Key("carrier", _PROTOCOL, 'The protocol that carries the protocol "prompted".', example="example-chat"),
    Key(
        "headers",
        Named(_HEADER_NAME, Alternatives(several=Several(Variables(text=Text(blank=True)), "strings", once=True))),
        "Headers to send with every request. An empty one is not sent.",
        EMPTY,
        {"X-Team": ["{env:TEAM}", ""]},
    ),
    Key("cloud", _PROTOCOL, "The cloud that hosts the models, if any. It determines the addresses.", example="example"),
    Key("region", Alternatives(), "Its region in the cloud.", example="{env:HOUSE_REGION}"),
    Key("project", Alternatives(), "The account in the cloud, if it has accounts.", example="house-1"),
    Key("api_version", Variables(), "The version of the cloud's API, if it requires one.", example="2024-10-21"),
    Key("retries", Number(whole=True, minimum=0, maximum=10), "Retries after a transient failure.", RETRIES, 5),
    TIMEOUTS.key("timeouts", default=EMPTY),
    Key("breaker", BREAKER, "Keys that override those of [breaker].", default=EMPTY),
    Key("homepage", Text(pattern=r"https?://[^\s]+", shape="a URL"), "Its web page.", example="https://example.org"),
)
HEADER = Table("[provider]", "The endpoint.", (_NAME, _PROTOCOL_KEY, *ENDPOINT_KEYS))
_HEADER_NAMES = tuple(key.name for key in HEADER.keys)
CAPABILITY_TABLE = Table("[capabilities]", "The capabilities of its models, unless a row differs.", CAPABILITY_KEYS)
MODEL_ROW = Table(
    "[[models]]",
    "The capabilities of some models. The first row that matches a name applies.",
    (Key("match", Text(), "A pattern of names, with * and ?.", required=True, example="small-*"), *CAPABILITY_KEYS),
)
BODY_KEYS = (
    CAPABILITY_TABLE.key("capabilities", default=EMPTY),
    Key(
        "models",
        Rows(MODEL_ROW, "tables, each with a match"),
        f"{MODEL_ROW.documentation} Rows of a configuration come before those of the provider.",
        default=(),
    ),
)
PROVIDER = Table("a provider's file", "One provider.", (HEADER.key("provider", required=True), *BODY_KEYS))
#: The keys by which a configuration overrides a provider, or defines a new one.
OVERRIDE = Table(
    "[providers.<name>]",
    "A provider: keys that replace those of a known one, or all of a new one.",
    (dataclasses.replace(_PROTOCOL_KEY, required=False), *ENDPOINT_KEYS, *BODY_KEYS),
)


def read_provider(
    mapping: Mapping[str, Any], source: Source = NO_SOURCE, *, layer: str = ""
) -> tuple[ProviderDescriptor | None, tuple[Problem, ...]]:
    """The descriptor of a provider's file, or None, and its problems. Raises nothing."""
    problems = Problems(source)
    parts = PROVIDER.read(mapping, (), problems)
    descriptor = None
    if len(problems) == 0:
        body = {name: value for name, value in parts.items() if name != "provider"}
        descriptor = _make({**parts["provider"], **body}, ("provider",), problems, layer)
    return descriptor, problems.finished()


def lay_over(
    base: ProviderDescriptor | None, name: str, keys: Mapping[str, Any]
) -> tuple[ProviderDescriptor | None, tuple[Problem, ...]]:
    """A provider overridden by the read keys of ``[providers.<name>]``, or a new one, and the problems."""
    problems = Problems(NO_SOURCE)
    below: dict[str, Any] = {"name": name}
    if base is not None:
        below = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
        below["models"] = [{"match": row.match, **row.capabilities} for row in base.models]
    elif "protocol" not in keys:
        hint = 'It is a new provider, which needs protocol = "…".'
        problems.add(("providers", name), f"[providers.{name}] lacks protocol", hint)
        return None, problems.finished()
    descriptor = _make(lay_keys(below, keys), ("providers", name), problems)
    if descriptor is not None and base is not None:
        descriptor = dataclasses.replace(descriptor, file=base.file, layer=base.layer)
    return descriptor, problems.finished()


def _make(keys: Mapping[str, Any], path: Path, problems: Problems, layer: str = "") -> ProviderDescriptor | None:
    if keys["protocol"] == "prompted" and keys.get("carrier") is None:
        problems.add((*path, "protocol"), 'protocol = "prompted" needs a carrier', 'Add its wire: carrier = "…".')
        return None
    fields = {name: keys[name] for name in (*_HEADER_NAMES, "capabilities") if keys.get(name) is not None}
    for name in ("headers", "capabilities", "timeouts", "breaker"):
        fields[name] = frozendict(fields.get(name, {}))
    rows = (
        ModelRow(match=row["match"], capabilities=frozendict({name: row[name] for name in row if name != "match"}))
        for row in keys.get("models", ())
    )
    return ProviderDescriptor(**fields, models=tuple(rows), file=problems.source.file, layer=layer)
