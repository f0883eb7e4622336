"""``[gateway]``: what ``ripieno serve responses`` offers to its clients, to whom, and within which bounds.

Where it listens is no part of it: only the command line opens a listener.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from frozendict import frozendict

from ripieno.descriptors.ensembles import ENSEMBLE_NAME
from ripieno.descriptors.reader.alternatives import Variables
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Kind, Named, Number, Several, Size, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.templates import Template
from ripieno.jsonvalues import EMPTY

#: Bytes of a secret, at least: a shorter one could be guessed.
SECRET_BYTES = 16

Absence = Literal["deny", "defer"]
EventNames = Literal["official", "seed"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDescriptor:
    """What a gateway offers. Models are identities such as ``house/small-1``; seconds and bytes are numbers.

    ``map`` gives names that clients may ask for to models; ``*`` is for every other name. ``ensembles`` are offered in
    every request, and run here. ``hosted`` binds kinds of hosted tools to tools of ensembles, and ``mcp`` has the
    ensembles that a request may name as the label of a server. ``keys`` has the digests of callers' keys, by the names
    of the callers. ``secret`` is a template, or empty: then each start makes one.
    """

    models: tuple[str, ...] = ()
    map: frozendict[str, str] = EMPTY
    ensembles: tuple[str, ...] = ()
    hosted: frozendict[str, str] = EMPTY
    mcp: tuple[str, ...] = ()
    strict: bool = False
    absent: Absence = "deny"
    show_calls: bool = True
    max_turns: int | None = None
    keys: frozendict[str, str] = EMPTY
    hosts: tuple[str, ...] = ()
    events: EventNames = "official"
    metrics: bool = True
    secret: str = ""
    header_bytes: int = 32 * 2**10
    header_seconds: float = 5.0
    body_bytes: int = 10 * 2**20
    body_seconds: float = 30.0
    connections: int = 1000
    concurrency: int = 200
    seconds: float = 600.0
    keep_alive: float = 15.0
    stalled: float = 30.0
    grace: float = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyDigest:
    """The digest of a key. What was written instead is never repeated: it may be the key itself."""

    expected: str = '"sha256:" and 64 hexadecimal digits'
    shape: str = "sha256:[0-9a-f]{64}"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and re.fullmatch(self.shape, value):
            return value
        hint = "ripieno serve key makes a key, and prints the line for here."
        problems.add(path, f"{subject(path)} must be the digest of a key: {self.expected}", hint)
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.shape}$"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostName:
    """A name or address under which clients reach a machine, in lower case; its port is not asked about."""

    expected: str = 'the name of a host such as "models.example.org", without scheme and port'
    shape: str = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and re.fullmatch(self.shape, value):
            return value.lower()
        hint = "Name each host: one that fits any would let any page of the web in." if value == "*" else None
        return refuse(self, value, path, problems, hint)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.shape})$"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What is signed with: a text that may have variables, whose bytes are counted where it has none.

    The message does not repeat it.
    """

    expected: str = f"a string of {SECRET_BYTES} bytes or more, with {{env:NAME}} where a variable goes"
    variables: Variables = Variables()  # noqa: RUF009  frozen

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        text = self.variables.read(value, path, problems)
        literal = None if text is INVALID else Template.parse(text, variables=True).literal
        count = SECRET_BYTES if literal is None else len(literal.encode("utf-8", "surrogatepass"))
        if count < SECRET_BYTES:
            hint = 'Keep it in a variable: "{env:GATEWAY_SECRET}". To make one: openssl rand -hex 32'
            problems.add(path, f"{subject(path)} has {count} bytes: it needs {SECRET_BYTES} or more, by chance", hint)
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return self.variables.schema()


MODEL_IDENTITY = Text(pattern=r"[a-z][a-z0-9_.-]*/\S+", shape='a provider and a model such as "house/small-1"')
_USUAL = GatewayDescriptor()
_ENSEMBLES = Several(item=ENSEMBLE_NAME, items="names of ensembles", once=True)
_CALLER = Text(
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}",
    shape="the name of a caller: letters, digits, _, ., @ and -, at most 64 of them",
)
_SECONDS = Number(above=0, maximum=86_400, unit="seconds")


def _offered() -> tuple[Key, ...]:
    """What clients may ask for, and what is done with it."""
    return (
        Key(
            name="models",
            kind=Several(item=MODEL_IDENTITY, items='models such as "house/small-1"', once=True),
            documentation="Models that clients may ask for, by the whole name or by what follows the provider.",
            default=(),
            example=["house/small-1"],
        ),
        Key(
            name="map",
            kind=Named(name=Text(pattern=r"\S{1,256}", shape="a name without spaces"), kind=MODEL_IDENTITY),
            documentation="Other names that clients may ask for, and the model that each means; * is any other name.",
            example={"*": "house/small-1"},
        ),
        Key(
            name="ensembles",
            kind=_ENSEMBLES,
            documentation="Ensembles whose tools are offered in every request, and run here.",
            default=(),
            example=["io"],
        ),
        Key(
            name="hosted",
            kind=Named(
                name=Text(pattern=r"[a-z][a-z0-9_.-]*(?::[A-Za-z0-9_.-]+)?", shape='a kind such as "code_interpreter"'),
                kind=Text(pattern=r"[a-z][a-z0-9_-]*\.\S+", shape='an ensemble and a tool such as "io.read_file"'),
            ),
            documentation="Kinds of hosted tools, and the tool that runs here for each.",
            example={"code_interpreter": "execution.python_exec"},
        ),
        Key(
            name="mcp",
            kind=_ENSEMBLES,
            documentation="Ensembles that a request may name as the label of an MCP server.",
            default=(),
            example=["git"],
        ),
        Key(
            name="strict",
            kind=Flag(),
            documentation="Whether a request with a hosted tool that is bound to nothing is refused, and not only "
            "answered without it.",
            default=_USUAL.strict,
            example=True,
        ),
        Key(
            name="absent",
            kind=Text(choices=get_args(Absence)),
            documentation="What becomes of calls that a person would be asked about: denied, or left waiting for one.",
            default=_USUAL.absent,
            example="defer",
        ),
        Key(
            name="show_calls",
            kind=Flag(),
            documentation="Whether answers have the calls that ran here, and their results.",
            default=_USUAL.show_calls,
            example=False,
        ),
        Key(
            name="max_turns",
            kind=Number(whole=True, minimum=1),
            documentation="Turns of the model in one request whose calls run here; left out, what [limits] says.",
            example=8,
        ),
        Key(
            name="events",
            kind=Text(choices=get_args(EventNames)),
            documentation="Names of the events of streamed responses: the public ones, or older names beside them.",
            default=_USUAL.events,
            example="seed",
        ),
        Key(
            name="metrics",
            kind=Flag(),
            documentation="Whether /metrics tells what was counted, where the extra otel is installed.",
            default=_USUAL.metrics,
            example=False,
        ),
    )


def _callers() -> tuple[Key, ...]:
    """Who is let in."""
    return (
        Key(
            name="keys",
            kind=Named(name=_CALLER, kind=KeyDigest()),
            documentation="Callers that have a key, and the digest of each; `ripieno serve key` makes them. Where "
            "there are any, every request needs one.",
            example={"laptop": "sha256:" + 64 * "0"},
        ),
        Key(
            name="hosts",
            kind=Several(item=HostName(), items="names of hosts", once=True),
            documentation="Names under which clients reach this machine, beside localhost and the address itself.",
            default=(),
            example=["models.example.org"],
        ),
        Key(
            name="secret",
            kind=Secret(),
            documentation="What results of calls are signed with that ran here; left out, each start makes one. "
            "Several machines need the same.",
            example="{env:GATEWAY_SECRET}",
        ),
    )


def _bounds() -> tuple[Key, ...]:
    """How much one client may take, and all of them."""
    rows: tuple[tuple[str, Kind, str, Any], ...] = (
        ("header_bytes", Size(maximum=2**20), "Bytes of a request's line and headers.", "16 KiB"),
        ("header_seconds", _SECONDS, "Seconds in which they must come.", 10),
        ("body_bytes", Size(), "Bytes of a request's body.", "4 MiB"),
        ("body_seconds", _SECONDS, "Seconds in which it must come.", 60),
        ("connections", Number(whole=True, minimum=1, maximum=100_000), "Connections at once, for each worker.", 200),
        ("concurrency", Number(whole=True, minimum=1, maximum=100_000), "Requests at once, for each worker.", 50),
        ("seconds", _SECONDS, "Seconds that a request may take.", 120),
        ("keep_alive", _SECONDS, "Seconds without an event after which a stream says that it is there.", 5),
        ("stalled", _SECONDS, "Seconds in which a client must take something of its answer.", 10),
        ("grace", Number(minimum=0, maximum=3600, unit="seconds"), "Seconds for open answers at the end.", 30),
    )
    return tuple(
        Key(name=name, kind=kind, documentation=documentation, default=getattr(_USUAL, name), example=example)
        for name, kind, documentation, example in rows
    )


GATEWAY = Table(
    title="[gateway]",
    documentation="What `ripieno serve responses` offers to its clients, to whom, and within which bounds.",
    keys=(*_offered(), *_callers(), *_bounds()),
    elsewhere=frozendict(dict.fromkeys(("host", "port", "workers"), "the options of `ripieno serve responses`")),
)


def check_gateway(table: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """What is wrong with the keys of one table together: with one key, nobody could tell two callers apart."""
    callers: dict[str, str] = {}
    for name, digest in table.get("keys", EMPTY).items():
        first = callers.setdefault(digest, name)
        if first != name:
            problems.add((*path, "keys", name), f"{name} has the key of {first}", "Make another: ripieno serve key")


def make_gateway(table: Mapping[str, Any]) -> GatewayDescriptor:
    """The descriptor of a table that was read."""
    return GatewayDescriptor(**table)
