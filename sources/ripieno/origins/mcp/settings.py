"""The keys of ``[connection]`` for a server of the Model Context Protocol."""

import dataclasses
from collections.abc import Sequence

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.keys import Key, Table, toml_line
from ripieno.descriptors.reader.kinds import INVALID, Named, Number, Several, Text
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.ensembles.owner import OPEN_DEADLINE
from ripieno.origins.mcp.addresses import Url
from ripieno.origins.mcp.oauth import OAUTH, Credentials, read_oauth
from ripieno.origins.mcp.variables import Variable
from ripieno.origins.settings import VARIABLE_NAME, check_program

#: An ensemble has ``OPEN_DEADLINE`` to connect; what remains is for ending a server that was too slow.
_LONGEST = OPEN_DEADLINE - 2
_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", shape="the name of a header")


CONNECTION = Table(
    title="[connection]",
    documentation="A server of the Model Context Protocol.",
    keys=(
        Key(
            name="transport",
            kind=Text(choices=("stdio", "http", "sse")),
            documentation="How it is talked to: stdio to a command; http to a URL; sse to the URL of an old server.",
            example="http",
        ),
        Key(
            name="command",
            kind=Several(item=Text(blank=True), items="strings: a program and its arguments"),
            documentation="What starts it, as it is; no shell, no templates.",
            example=["python", "-m", "mcp_server_time"],
        ),
        Key(
            name="environment",
            kind=Named(name=VARIABLE_NAME, kind=Variable(), expected="a table of variables"),
            documentation="Variables that it gets beside PATH, LANG, TZ, TMPDIR and HOME.",
            example={"TOKEN": "{env:TIME_TOKEN}"},
        ),
        Key(
            name="directory",
            kind=Text(pattern=r"[^\x00-\x1f]+", shape="a path of a folder"),
            documentation="The folder that it runs in; a relative one begins at the workspace, which is the default.",
            example="/srv/server",
        ),
        Key(
            name="url",
            kind=Url(),
            documentation="Where it is.",
            example="https://example.org/mcp",
        ),
        Key(
            name="headers",
            kind=Named(name=_HEADER_NAME, kind=Variable(), expected="a table of headers"),
            documentation="Headers of every request.",
            example={"Authorization": "Bearer {env:TIME_TOKEN}"},
        ),
        Key(name="oauth", kind=OAUTH, documentation="How a token for the URL is had, where it wants one."),
        Key(
            name="timeout",
            kind=Number(above=0, maximum=_LONGEST, unit="seconds"),
            documentation="Seconds in which it must have started and told its tools.",
            default=25,
            example=10,
        ),
    ),
)


#: Keys that only one way of talking has.
_OF_STDIO = ("command", "environment", "directory")
_OF_HTTP = ("url", "headers", "oauth")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server: a command, or a URL."""

    transport: str = "stdio"
    command: tuple[str, ...] | None = None
    environment: frozendict[str, Template] = frozendict()  # noqa: RUF009
    directory: str = "."
    url: str | None = None
    headers: frozendict[str, Template] = frozendict()  # noqa: RUF009
    oauth: Credentials | None = None
    timeout: float = 25.0


def read_connection(descriptor: EnsembleDescriptor, problems: Problems) -> ServerSettings | None:
    """The settings of ``[connection]``, or None after what is wrong was added."""
    if descriptor.connection is None:
        return None
    before = len(problems)
    settings = CONNECTION.read(descriptor.connection.settings, ("connection",), problems)
    if settings is INVALID:
        return None
    transport = settings.setdefault("transport", "http" if "url" in settings else "stdio")
    needed, foreign = ("command", _OF_HTTP) if transport == "stdio" else ("url", _OF_STDIO)
    for name in foreign:
        if name in settings:
            other = "http or sse" if transport == "stdio" else "stdio"
            problems.add(("connection", name), f"{name} belongs to the transport {other}, and this one is {transport}")
    if needed not in settings:
        example = toml_line(needed, CONNECTION.known[needed].example)
        problems.add(("connection",), f"[connection] lacks {needed}", f"For instance: {example}")
    elif transport == "stdio":
        _check_command(settings["command"], descriptor, problems)
    if transport != "stdio" and "oauth" in settings:
        settings["oauth"] = read_oauth(settings["oauth"], problems)
    if len(problems) > before:
        return None
    return ServerSettings(**settings)


def _check_command(command: Sequence[str], descriptor: EnsembleDescriptor, problems: Problems) -> None:
    at = ("connection", "command")
    if not command or not command[0].strip():
        problems.add(at, "command must name a program", 'For instance: command = ["python", "-m", "mcp_server_time"]')
    else:
        check_program(command[0], descriptor, (*at, 0), problems)
    if any("\0" in one for one in command):
        problems.add(at, "an argument of a program cannot hold NUL")
