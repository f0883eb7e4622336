"""One provider: an endpoint, and what it can do, model by model."""

import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.model_rows import ModelRow, Rows, lay_keys
from ripieno.descriptors.reader.alternatives import Alternatives, Choice, Variables, alternatives, variables_in
from ripieno.descriptors.reader.keys import UNSET, Key, Table, description_key
from ripieno.descriptors.reader.kinds import Flag, Kind, Named, Number, Pattern, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.descriptors.timeouts import BREAKER, TIMEOUTS
from ripieno.exceptions import Problem
from ripieno.jsonvalues import EMPTY, thaw

PROVIDER_NAME = Text(
    pattern=r"[a-z][a-z0-9_.-]{0,63}", shape="a name of lower-case letters, digits, _, . and -, beginning with a letter"
)
#: How often a provider is asked again, unless it says otherwise.
RETRIES = 2
_PROTOCOL = Text(pattern=r"[a-z][a-z0-9_-]*", shape="the name of a protocol")
_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", shape="the name of an HTTP header")


def _capability(name: str, kind: Kind, documentation: str, default: Any, example: Any) -> Key:
    return Key(name=name, kind=kind, documentation=documentation, default=default, example=example)


CAPABILITY_KEYS: tuple[Key, ...] = (
    _capability("function_calling", Flag(), "Whether it has native calls; otherwise they are prompted.", True, False),
    _capability("parallel_calls", Flag(), "Whether one message may have several calls.", True, False),
    _capability("streaming", Flag(), "Whether it streams at all.", True, False),
    _capability("stream_calls", Flag(), "Whether calls survive streaming; false asks for whole answers.", True, False),
    _capability("json_mode", Flag(), "Whether it can be held to JSON.", False, True),
    _capability("tool_choice", Flag(), "Whether it obeys a required or forced tool.", True, False),
    _capability("strict", Flag(), "Whether it can hold arguments to their schema.", False, True),
    _capability("images_in_results", Flag(), "Whether results may have images.", False, True),
    _capability(
        "reasoning_replay",
        Text(choices=("never", "turn", "always")),
        "When its reasoning is sent back: never, until the next user message, or always.",
        "never",
        "turn",
    ),
    _capability(
        "sampling", Flag(), "Whether it takes temperature and top_p; left out, as its wire does.", UNSET, False
    ),
    _capability(
        "thinking_budgets",
        Flag(),
        "Whether it is told how much to think as a number of tokens; left out, as a word.",
        UNSET,
        True,
    ),
    _capability(
        "signature_placeholder",
        Text(),
        "What stands for the signature of a call that another model made, where one is demanded.",
        UNSET,
        "none-was-made",
    ),
    _capability(
        "custom_tools", Flag(), "Whether free-form tools are sent as such; else as functions of one text.", UNSET, False
    ),
    _capability("allowed_tools", Flag(), "Whether the wire has a word for the tools that may be called.", False, True),
    _capability(
        "tool_search",
        Flag(),
        "Whether the provider finds searchable tools itself, on wires that have a word for it.",
        False,
        True,
    ),
    _capability("stream_usage", Flag(), "Whether it can be asked to count tokens in a stream.", True, False),
    _capability(
        "output_tokens_parameter",
        Text(choices=("max_completion_tokens", "max_tokens")),
        "The key that limits the tokens of an answer, where the wire has two.",
        "max_completion_tokens",
        "max_tokens",
    ),
    _capability(
        "call_identifiers",
        Pattern(),
        "The form that identifiers of calls must have, a regular expression; left out, as its wire wants it.",
        UNSET,
        "[A-Za-z0-9]{9}",
    ),
    _capability("text_calls", Flag(), "Whether the server leaves calls in the text.", False, True),
    _capability(
        "text_form",
        Text(choices=("hermes", "qwen-coder", "invoke", "mistral", "llama", "glm")),
        "How a model that is prompted to call is shown to write a call.",
        "hermes",
        "qwen-coder",
    ),
    _capability(
        "output_tokens",
        Number(whole=True, minimum=1),
        "Tokens of an answer, where the wire wants a number.",
        4096,
        8192,
    ),
    _capability(
        "context",
        Number(whole=True, minimum=1),
        "Tokens of its context: all that it is shown, the tools, and its answer; left out, nobody knows.",
        UNSET,
        128_000,
    ),
    _capability(
        "cache_breakpoints",
        Flag(),
        "Whether requests mark what it should keep in its cache; left out, as its wire does.",
        UNSET,
        False,
    ),
)
#: What holds where nobody says anything else; the others are left to the protocol.
CAPABILITIES: frozendict[str, Any] = frozendict(
    {key.name: key.default for key in CAPABILITY_KEYS if key.default is not UNSET}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDescriptor:
    """One provider. ``capabilities``, ``timeouts`` and ``breaker`` are those given.

    ``base_url``, ``api_key``, ``region``, ``project``, ``api_version`` and the values of ``headers`` are templates;
    ``api_key``, ``region`` and ``project`` may be several, of which the first counts whose variables are set.
    """

    name: str
    protocol: str
    description: str = ""
    base_url: str | None = None
    api_key: Choice = None
    carrier: str | None = None
    headers: frozendict[str, str] = EMPTY
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
    file: str | None = dataclasses.field(default=None, compare=False)
    layer: str = dataclasses.field(default="", compare=False)

    def capabilities_for(self, model: str) -> frozendict[str, Any]:
        """Every capability of a model: the first row that matches it, over the provider's, over the defaults."""
        return frozendict({**CAPABILITIES, **self.capabilities, **self.row_for(model)})

    def row_for(self, model: str) -> frozendict[str, Any]:
        """What the first row that matches a model gives; nothing where none does."""
        matching = (row.capabilities for row in self.models if fnmatch.fnmatchcase(model, row.match))
        return next(matching, EMPTY)

    @property
    def needs(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """What it takes from the environment: needs, each of which has alternatives, which are made of variables.

        An alternative without variables is a text that needs none, so that its need is always met.
        """
        choices = (self.api_key, self.base_url, self.region, self.project, self.api_version, *self.headers.values())
        needs = (tuple(map(variables_in, alternatives(choice))) for choice in choices)
        return tuple(dict.fromkeys(need for need in needs if any(need)))

    def mapping(self) -> dict[str, Any]:
        """The form that a file has; reading it gives an equal descriptor."""
        header = {name: getattr(self, name) for name in _HEADER_NAMES}
        return {
            "provider": {name: thaw(value) for name, value in header.items() if value not in (None, "", EMPTY)},
            **({"capabilities": dict(self.capabilities)} if self.capabilities else {}),
            **({"models": [{"match": row.match, **row.capabilities} for row in self.models]} if self.models else {}),
        }


_NAME = Key(
    name="name", kind=PROVIDER_NAME, documentation="Its name, before the slash.", required=True, example="house"
)
_PROTOCOL_KEY = Key(
    name="protocol", kind=_PROTOCOL, documentation="The wire format that it speaks.", required=True, example="prompted"
)
ENDPOINT_KEYS = (
    description_key("What it is, for people.", "The server in the cellar"),
    Key(
        name="base_url",
        kind=Variables(
            text=Text(pattern=r"(?:https?://|\{env:)[^\s]+", shape='a URL such as "https://example.org/v1"')
        ),
        documentation="Where it is. Only a cloud that knows by itself can do without.",
        example="http://localhost:8080/v1",
    ),
    Key(
        name="api_key",
        kind=Alternatives(),
        documentation="Its key, which is better named than written.",
        example=["{env:HOUSE_KEY}", "{env:HOUSE_TOKEN}"],
    ),
    Key(
        name="carrier",
        kind=_PROTOCOL,
        documentation='The protocol that carries the "prompted" one, and only that one.',
        example="example-chat",
    ),
    Key(
        name="headers",
        kind=Named(name=_HEADER_NAME, kind=Variables(text=Text(blank=True))),
        documentation="Headers to send with every request.",
        default=frozendict(),
        example={"X-Team": "{env:TEAM}"},
    ),
    Key(
        name="cloud",
        kind=_PROTOCOL,
        documentation="The cloud that stands between us and the models, where one does: it decides about addresses.",
        example="example",
    ),
    Key(name="region", kind=Alternatives(), documentation="Where in the cloud it is.", example="{env:HOUSE_REGION}"),
    Key(
        name="project",
        kind=Alternatives(),
        documentation="The account in the cloud, where it has such.",
        example="house-1",
    ),
    Key(
        name="api_version",
        kind=Variables(),
        documentation="The version of the cloud's interface, where it wants one.",
        example="2024-10-21",
    ),
    Key(
        name="retries",
        kind=Number(whole=True, minimum=0, maximum=10),
        documentation="How often it is asked again after a fault that may pass.",
        default=RETRIES,
        example=5,
    ),
    Key(name="timeouts", kind=TIMEOUTS, documentation=TIMEOUTS.documentation, default=EMPTY),
    Key(name="breaker", kind=BREAKER, documentation="What it has otherwise than [breaker].", default=EMPTY),
    Key(
        name="homepage",
        kind=Text(pattern=r"https?://[^\s]+", shape="a URL"),
        documentation="Where to read about it, and get a key.",
        example="https://example.org",
    ),
)
HEADER = Table(title="[provider]", documentation="The endpoint.", keys=(_NAME, _PROTOCOL_KEY, *ENDPOINT_KEYS))
_HEADER_NAMES = tuple(key.name for key in HEADER.keys)
CAPABILITY_TABLE = Table(
    title="[capabilities]", documentation="What its models can do, unless a row says otherwise.", keys=CAPABILITY_KEYS
)
MODEL_ROW = Table(
    title="[[models]]",
    documentation="What some models do differently. The first row that matches a name holds.",
    keys=(
        Key(
            name="match",
            kind=Text(),
            documentation="A pattern of names, with * and ?.",
            required=True,
            example="small-*",
        ),
        *CAPABILITY_KEYS,
    ),
)
BODY_KEYS = (
    Key(
        name="capabilities",
        kind=CAPABILITY_TABLE,
        documentation=CAPABILITY_TABLE.documentation,
        default=frozendict(),
    ),
    Key(
        name="models",
        kind=Rows(item=MODEL_ROW, items="tables, each with a match"),
        documentation=f"{MODEL_ROW.documentation} Those of a configuration stand before those that are known.",
        default=(),
    ),
)
PROVIDER = Table(
    title="a provider's file",
    documentation="One provider.",
    keys=(Key(name="provider", kind=HEADER, documentation=HEADER.documentation, required=True), *BODY_KEYS),
)
#: What a configuration may lay over a provider of that name, or say of a new one.
OVERRIDE = Table(
    title="[providers.<name>]",
    documentation="A provider: keys that replace those of a known one, or all of a new one.",
    keys=(dataclasses.replace(_PROTOCOL_KEY, required=False), *ENDPOINT_KEYS, *BODY_KEYS),
)


def read_provider(
    mapping: Mapping[str, Any],
    source: Source = Source(),  # noqa: B008  frozen
    *,
    layer: str = "",
) -> tuple[ProviderDescriptor | None, tuple[Problem, ...]]:
    """The descriptor of a provider's file, or None, and everything that is wrong with it. Raises nothing."""
    problems = Problems(source)
    parts = PROVIDER.read(mapping, (), problems)
    descriptor = None
    if len(problems) == 0:
        body = {name: value for name, value in parts.items() if name != "provider"}
        descriptor = _make({**parts["provider"], **body}, ("provider",), problems, source.file, layer)
    return descriptor, problems.finished()


def lay_over(
    base: ProviderDescriptor | None, name: str, keys: Mapping[str, Any], *, file: str | None = None, layer: str = ""
) -> tuple[ProviderDescriptor | None, tuple[Problem, ...]]:
    """A known provider with the read keys of ``[providers.<name>]`` laid over it, or a new one made of them."""
    problems = Problems(Source(file=file))
    below: dict[str, Any] = {"name": name}
    if base is not None:
        below = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
        below["models"] = [{"match": row.match, **row.capabilities} for row in base.models]
        file, layer = base.file, base.layer
    elif "protocol" not in keys:
        hint = 'No provider of that name is known, so it needs protocol = "…".'
        problems.add(("providers", name), f"[providers.{name}] lacks protocol", hint)
        return None, problems.finished()
    descriptor = _make(lay_keys(below, keys), ("providers", name), problems, file, layer)
    return descriptor, problems.finished()


def _make(
    keys: Mapping[str, Any], path: Path, problems: Problems, file: str | None, layer: str
) -> ProviderDescriptor | None:
    if keys["protocol"] == "prompted" and keys.get("carrier") is None:
        problems.add(
            (*path, "protocol"),
            'protocol = "prompted" needs a carrier',
            "Name the protocol that carries it: carrier = ….",
        )
        return None
    fields = {name: keys[name] for name in (*_HEADER_NAMES, "capabilities") if keys.get(name) is not None}
    for name in ("headers", "capabilities", "timeouts", "breaker"):
        fields[name] = frozendict(fields.get(name, {}))
    rows = (
        ModelRow(match=row["match"], capabilities=frozendict({name: row[name] for name in row if name != "match"}))
        for row in keys.get("models", ())
    )
    return ProviderDescriptor(**fields, models=tuple(rows), file=file, layer=layer)
