"""``[gateway]``: the models, tools, callers and limits of ``ripieno serve responses``.

The address is an option of the command line: a configuration never opens a listener.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from frozendict import frozendict

from ripieno.descriptors.ensembles import ENSEMBLE_NAMES
from ripieno.descriptors.providers import MODEL_IDENTITIES, MODEL_IDENTITY
from ripieno.descriptors.reader.alternatives import Variables
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import COUNT, INVALID, Flag, Named, Number, Several, Size, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, subject
from ripieno.descriptors.templates import Template
from ripieno.jsonvalues import EMPTY
from ripieno.values import Value

#: The least bytes of a secret: a shorter one could be guessed.
SECRET_BYTES = 16

Absence = Literal["deny", "defer"]
EventNames = Literal["official", "seed"]


class StoreDescriptor(Value, kw_only=True):
    """Settings of a store of responses. ``default`` is ``store`` where a request does not say; bytes are numbers.

    ``responses`` and ``bytes`` are what one caller may have; ``chain`` and ``chain_bytes`` what one response continues.
    ``event_seconds`` is how long the events of a background response stay after its end.
    """

    default: bool = True
    days: float = 30.0
    event_seconds: float = 600.0
    responses: int = 10_000
    bytes: int = 2**30
    chain: int = 1000
    chain_bytes: int = 32 * 2**20


class GatewayDescriptor(Value, kw_only=True):
    """Settings of a gateway. Models are identities such as ``house/small-1``; seconds and bytes are numbers.

    ``map`` has the models of other names that clients may request; ``*`` is any other name. ``ensembles`` are offered
    in every request and run here. ``hosted`` binds kinds of hosted tools to tools of ensembles; ``mcp`` has the
    ensembles that a request may name as the label of a server. ``keys`` has the digests of keys by caller. ``secret``
    is a template; if it is empty, each start creates one. ``store`` is None if nothing is stored.
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
    store: StoreDescriptor | None = None
    header_bytes: int = 32 * 2**10
    header_seconds: float = 5.0
    body_bytes: int = 10 * 2**20
    body_seconds: float = 30.0
    messages: int = 5000
    parts: int = 20_000
    tools: int = 1000
    containers: int = 200_000
    memory_bytes: int = 512 * 2**20
    connections: int = 1000
    concurrency: int = 200
    sockets: int = 50
    socket_seconds: float = 3600.0
    socket_idle: float = 600.0
    seconds: float = 600.0
    keep_alive: float = 15.0
    stalled: float = 30.0
    grace: float = 5.0


class KeyDigest(Value, kw_only=True):
    """The digest of a key. Messages never repeat a wrong value: it may be the key itself."""

    expected: str = '"sha256:" and 64 hexadecimal digits'
    shape: str = "sha256:[0-9a-f]{64}"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and re.fullmatch(self.shape, value):
            return value
        hint = "Run `ripieno serve key`: it creates a key and prints this line."
        problems.add(path, f"{subject(path)} must be the digest of a key: {self.expected}", hint)
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.shape}$"}


class HostName(Value, kw_only=True):
    """A name or address under which clients reach a machine, in lower case, without a port."""

    expected: str = 'the name of a host such as "models.example.org", without scheme and port'
    shape: str = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and re.fullmatch(self.shape, value):
            return value.lower()
        hint = "Name each host: a wildcard would let any page of the web in." if value == "*" else None
        return refuse(self, value, path, problems, hint)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.shape})$"}


class Secret(Value, kw_only=True):
    """A secret: a text that may have variables. Its length is checked if it has none. Messages never repeat it."""

    expected: str = f"a string of {SECRET_BYTES} bytes or more, with {{env:NAME}} where a variable goes"
    variables: Variables = Variables()

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        text = self.variables.read(value, path, problems)
        literal = None if text is INVALID else Template.parse(text, variables=True).literal
        count = SECRET_BYTES if literal is None else len(literal.encode("utf-8", "surrogatepass"))
        if count < SECRET_BYTES:
            hint = 'Store it in a variable: "{env:GATEWAY_SECRET}". To create one: openssl rand -hex 32'
            problems.add(path, f"{subject(path)} has {count} bytes: it needs {SECRET_BYTES} random bytes or more", hint)
            return INVALID
        return text

    def schema(self) -> dict[str, Any]:
        return self.variables.schema()


_DEFAULTS = GatewayDescriptor()
_CALLER = Text(
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}",
    shape="the name of a caller: letters, digits, _, ., @ and -, at most 64 of them",
)
_SECONDS = Number(above=0, maximum=86_400, unit="seconds")


_OFFER = Key.rows(
    _DEFAULTS,
    ("models", MODEL_IDENTITIES, "Models that clients may request, with or without the provider.", ["house/small-1"]),
    (
        "map",
        Named(Text(pattern=r"\S{1,256}", shape="a name without spaces"), MODEL_IDENTITY),
        "Other names that clients may request, and the model of each; * is any other name.",
        {"*": "house/small-1"},
    ),
    ("ensembles", ENSEMBLE_NAMES, "Ensembles whose tools are offered in every request and run here.", ["io"]),
    (
        "hosted",
        Named(
            Text(pattern=r"[a-z][a-z0-9_.-]*(?::[A-Za-z0-9_.-]+)?", shape='a kind such as "code_interpreter"'),
            Text(pattern=r"[a-z][a-z0-9_-]*\.\S+", shape='an ensemble and a tool such as "io.read_file"'),
        ),
        "Kinds of hosted tools, and the tool that runs here for each.",
        {"code_interpreter": "execution.python_exec"},
    ),
    ("mcp", ENSEMBLE_NAMES, "Ensembles that a request may name as the label of an MCP server.", ["git"]),
    ("strict", Flag(), "Whether requests with unbound hosted tools are refused. Otherwise these are left out.", True),
    ("absent", Text(choices=get_args(Absence)), "Whether calls that need an approval are denied, or wait.", "defer"),
    ("show_calls", Flag(), "Whether answers contain the calls that ran here, and their results.", False),
    ("max_turns", COUNT, "Turns of the model in one request whose calls run here. If absent, [limits] decides.", 8),
    ("events", Text(choices=get_args(EventNames)), "Event names of streams: official, or also older ones.", "seed"),
    ("metrics", Flag(), "Whether /metrics returns counters, if the extra otel is installed.", False),
)
_ACCESS = (
    *Key.rows(
        _DEFAULTS,
        (
            "keys",
            Named(_CALLER, KeyDigest()),
            "Callers with a key, and the digest of each; `ripieno serve key` creates them. If there are any, every "
            "request needs a key.",
            {"laptop": "sha256:" + 64 * "0"},
        ),
        (
            "hosts",
            Several(HostName(), "names of hosts", once=True),
            "Names under which clients reach this machine, in addition to localhost and the address itself.",
            ["models.example.org"],
        ),
    ),
    Key(
        "secret",
        Secret(),
        "The secret that signs the results of calls that ran here. If absent, each start creates one. "
        "Several machines need the same.",
        example="{env:GATEWAY_SECRET}",
    ),
)
_BOUNDS = Key.rows(
    _DEFAULTS,
    ("header_bytes", Size(maximum=2**20), "Bytes of a request's line and headers.", "16 KiB"),
    ("header_seconds", _SECONDS, "Seconds until they have arrived.", 10),
    ("body_bytes", Size(), "Bytes of a request's body.", "4 MiB"),
    ("body_seconds", _SECONDS, "Seconds until it has arrived.", 60),
    ("messages", Number(whole=True, minimum=1, maximum=1_000_000), "Messages of a request.", 1000),
    ("parts", Number(whole=True, minimum=1, maximum=1_000_000), "Parts of all messages of a request.", 5000),
    ("tools", Number(whole=True, minimum=1, maximum=100_000), "Tools of a request.", 200),
    ("containers", Number(whole=True, minimum=1, maximum=10_000_000), "Objects and lists of a request.", 50_000),
    ("memory_bytes", Size(), "Memory of all open requests together, for each worker, estimated.", "256 MiB"),
    ("connections", Number(whole=True, minimum=1, maximum=100_000), "Connections at once, for each worker.", 200),
    ("concurrency", Number(whole=True, minimum=1, maximum=100_000), "Requests at once, for each worker.", 50),
    (
        "sockets",
        Number(whole=True, minimum=0, maximum=100_000),
        "WebSockets at once of one caller, for each worker. 0 refuses all.",
        10,
    ),
    (
        "socket_seconds",
        Number(above=0, maximum=3600, unit="seconds"),
        "Seconds after which a WebSocket is closed, after the answer that is open then.",
        1800,
    ),
    ("socket_idle", _SECONDS, "Seconds without a request after which a WebSocket is closed.", 120),
    ("seconds", _SECONDS, "Seconds that a request may take.", 120),
    ("keep_alive", _SECONDS, "Seconds without an event after which a stream sends a comment.", 5),
    ("stalled", _SECONDS, "Seconds within which a client must read a part of its answer.", 10),
    ("grace", Number(minimum=0, maximum=3600, unit="seconds"), "Seconds for open answers at shutdown.", 30),
)


STORE = Table(
    "[gateway.store]",
    "Stores responses, so that clients can fetch and continue them. Needs a secret under [gateway].",
    Key.rows(
        StoreDescriptor(),
        ("default", Flag(), "Whether a response is stored if its request has no `store`.", False),
        ("days", Number(above=0, maximum=36_500, unit="days"), "Days until it is deleted.", 7),
        ("event_seconds", _SECONDS, "Seconds for which the events of a background response stay after its end.", 60),
        (
            "responses",
            Number(whole=True, minimum=1, maximum=10_000_000),
            "Responses, conversations and items of one caller.",
            1000,
        ),
        ("bytes", Size(maximum=2**50), "Bytes of one caller.", "100 MiB"),
        ("chain", Number(whole=True, minimum=1, maximum=100_000), "Responses that a response may continue.", 100),
        ("chain_bytes", Size(), "Bytes of these, of a conversation, and of items to which an input refers.", "8 MiB"),
    ),
    elsewhere=frozendict(secret="[gateway]"),
)


GATEWAY = Table(
    "[gateway]",
    "The models, tools, callers and limits of `ripieno serve responses`.",
    (*_OFFER, *_ACCESS, *_BOUNDS, STORE.key("store")),
    elsewhere=frozendict(dict.fromkeys(("host", "port", "workers"), "the options of `ripieno serve responses`")),
)


def make_gateway(table: Mapping[str, Any]) -> GatewayDescriptor:
    """The settings of the table."""
    read: dict[str, Any] = dict(table)
    if "store" in read:
        read["store"] = StoreDescriptor(**read["store"])
    return GatewayDescriptor(**read)


_SECRET = 'secret = "{env:GATEWAY_SECRET}"'
CREATE_SECRET = "To create one: openssl rand -hex 32"


def store_fault(gateway: GatewayDescriptor) -> tuple[str, str, str] | None:
    """The key, the problem and the lines to add, if the settings together need a store or a secret that is missing."""
    secret = f"under [gateway]: {_SECRET}. {CREATE_SECRET}"
    if gateway.store is not None and not gateway.secret:
        return "store", "[gateway.store] needs a secret, with which it encrypts", f"Add {secret}"
    if gateway.absent == "defer" and gateway.store is None:
        lines = "the line [gateway.store]" if gateway.secret else f"the line [gateway.store], and {secret}"
        return "absent", 'absent = "defer" under [gateway] needs a store, from which a client continues', f"Add {lines}"
    return None


def check_gateway(table: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Checks that each caller has a key of its own."""
    callers: dict[str, str] = {}
    for name, digest in table.get("keys", EMPTY).items():
        first = callers.setdefault(digest, name)
        if first != name:
            problems.add((*path, "keys", name), f"{name} has the key of {first}", "Create another: ripieno serve key")
