"""The keys of ``[connection]`` for a server of the Model Context Protocol."""

import dataclasses
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, Path, Problems
from ripieno.descriptors.keys import Key, Table, toml_line
from ripieno.descriptors.kinds import INVALID, Named, Number, Several, Text, refuse
from ripieno.origins.settings import VARIABLE_NAME, TemplateText, check_program
from ripieno.owning import OPEN_DEADLINE
from ripieno.templates import Template

#: An ensemble has ``OPEN_DEADLINE`` to connect; what remains is for ending a server that was too slow.
_LONGEST = OPEN_DEADLINE - 2
_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", shape="the name of a header")
_SEED_FORM = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\Z")


class Url:
    """An address for HTTP: with a host, without a password, which belongs into a header."""

    expected = "a URL that begins with http:// or https://"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        try:
            parts = urllib.parse.urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            return refuse(self, value, path, problems)
        if not usable or not value.isascii() or not value.isprintable() or " " in value:
            return refuse(self, value, path, problems)
        if "@" in parts.netloc:
            hint = 'Send it in a header: headers = { Authorization = "Bearer {env:NAME}" }.'
            problems.add(path, "a URL has no user and no password here", hint)
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri", "pattern": "^https?://"}


class Variable:
    """The value of a variable: a template without arguments, or the seed's form ``env:NAME``."""

    expected = "a string, with {env:NAME} where a variable goes"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        match = _SEED_FORM.match(value)
        template = TemplateText(variables=True).read(f"{{env:{match[1]}}}" if match else value, path, problems)
        if isinstance(template, Template) and template.placeholders:
            message = f"{{{template.placeholders[0]}}} is the place of an argument, and a server has none"
            problems.add(path, message, 'Variables are "{env:NAME}"; write "{{" for a brace that is text.')
            return INVALID
        return template

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


OAUTH = Table(
    title="[connection.oauth]",
    documentation="Credentials of this program itself, which it exchanges for a token (grant client_credentials).",
    keys=(
        Key(name="client_id", kind=Text(), documentation="Who we are there.", required=True, example="ripieno"),
        Key(
            name="client_secret",
            kind=Variable(),
            documentation="What only we know.",
            required=True,
            example="{env:CLIENT_SECRET}",
        ),
        Key(
            name="issuer",
            kind=Url(),
            documentation="The authorization server that gave them, the only one that ever sees them.",
            required=True,
            example="https://login.example.org",
        ),
        Key(name="scope", kind=Text(), documentation="What to ask for, in words parted by spaces.", example="read"),
    ),
)
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
class Credentials:
    """What is exchanged for a token, and with whom."""

    client_id: str
    client_secret: Template
    issuer: str
    scope: str | None = None


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
    if len(problems) > before:
        return None
    if "oauth" in settings:
        settings["oauth"] = Credentials(**settings["oauth"])
    return ServerSettings(**settings)


def _check_command(command: Sequence[str], descriptor: EnsembleDescriptor, problems: Problems) -> None:
    at = ("connection", "command")
    if not command or not command[0].strip():
        problems.add(at, "command must name a program", 'For instance: command = ["python", "-m", "mcp_server_time"]')
    else:
        check_program(command[0], descriptor, (*at, 0), problems)
    if any("\0" in one for one in command):
        problems.add(at, "an argument of a program cannot hold NUL")
