"""The keys of ``[connection]`` for an MCP server, and of ``[connection.oauth]``."""

import dataclasses
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.reader.keys import Key, Table, toml_line
from ripieno.descriptors.reader.kinds import INVALID, Named, Number, Several, Text, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.descriptors.templates.argv import as_list
from ripieno.ensembles.origin import McpTransport
from ripieno.ensembles.owner import OPEN_DEADLINE
from ripieno.exceptions import PluginFailure
from ripieno.jsonvalues import EMPTY, is_list, is_table
from ripieno.origins.mcp.addresses import Url
from ripieno.origins.settings import VARIABLE_NAME, VARIABLE_TEXT, check_program
from ripieno.values import Value

_SEED_FORM = re.compile(r"\Aenv:([A-Za-z_][A-Za-z0-9_]*)\Z")


#: A server's command, for hints.
_EXAMPLE = ("python", "-m", "mcp_server_time")


class _Command(Several):
    """A program and its arguments, as a list."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str):
            return refuse(self, value, path, problems, as_list("command", value, example=_EXAMPLE))
        return super().read(value, path, problems)


def _parse_variable(text: str) -> Template:
    """A template without arguments, or the seed's form ``env:NAME``."""
    template: Template = VARIABLE_TEXT.parse(_SEED_FORM.sub(r"{env:\1}", text))
    return template


_VARIABLE = dataclasses.replace(VARIABLE_TEXT, parse=_parse_variable)
Grant = Literal["client_credentials", "authorization_code"]
_AT = ("connection", "oauth")

OAUTH = Table(
    "[connection.oauth]",
    "The way to a token for the URL: credentials of this program, or a person's sign-in.",
    (
        Key(
            "grant",
            Text(choices=("client_credentials", "authorization_code")),
            "client_credentials exchanges this program's credentials and is the default with "
            "client_secret; authorization_code lets a person sign in with: ripieno login NAME.",
            example="authorization_code",
        ),
        Key(
            "client_id",
            Text(),
            "The registered client ID. A sign-in needs it only if this program is already registered.",
            example="ripieno",
        ),
        Key("client_secret", _VARIABLE, "The client secret.", example="{env:CLIENT_SECRET}"),
        Key(
            "issuer",
            Url(),
            "The authorization server that issued them, the only one that receives them.",
            example="https://login.example.org",
        ),
        Key("scope", Text(), "The scopes to request, separated by spaces.", example="read"),
        Key(
            "client_metadata_url",
            Url(),
            "The https URL of this client's metadata document, for servers that accept it as client_id.",
            example="https://example.org/oauth/client.json",
        ),
        Key(
            "redirect_port",
            Number(whole=True, minimum=1, maximum=65535),
            "The registered local port to which a sign-in returns. Default: any free port. The address "
            "is http://127.0.0.1:PORT/callback.",
            example=8765,
        ),
    ),
)
#: Keys of a person's sign-in only, and the keys that an exchange of credentials needs.
_OF_PERSONS = ("client_metadata_url", "redirect_port")
_OF_PROGRAMS = ("client_id", "client_secret", "issuer")


class Credentials(Value, kw_only=True):
    """The way to a token, and its issuer. ``redirect_port`` 0 is any free port."""

    grant: Grant = "client_credentials"
    client_id: str | None = None
    client_secret: Template | None = None
    issuer: str | None = None
    scope: str | None = None
    client_metadata_url: str | None = None
    redirect_port: int = 0

    @property
    def personal(self) -> bool:
        """Whether a person signs in."""
        return self.grant == "authorization_code"


def read_oauth(table: Mapping[str, Any], problems: Problems) -> Credentials:
    """The credentials of a table with valid keys; adds the problems of their combination."""
    given: dict[str, Any] = {
        "grant": "client_credentials" if "client_secret" in table else "authorization_code",
        **table,
    }
    credentials = Credentials(**given)
    if credentials.personal:
        _check_person(credentials, problems)
        return credentials
    for name in _OF_PERSONS:
        if name in table:
            message = f"{name} belongs to the grant authorization_code, but this one is client_credentials"
            problems.add((*_AT, name), message)
    for name in _OF_PROGRAMS:
        if name not in table:
            problems.add(_AT, f"[connection.oauth] lacks {name}", _show_example(OAUTH, name))
    return credentials


def _show_example(table: Table, name: str) -> str:
    return f"For instance: {toml_line(name, table.known[name].example)}"


def _check_person(credentials: Credentials, problems: Problems) -> None:
    if credentials.client_secret is not None:
        for name in ("client_id", "issuer"):
            if getattr(credentials, name) is None:
                role = "the client that it belongs to" if name == "client_id" else "the only server that may see it"
                problems.add(_AT, f"client_secret needs {name}, {role}", _show_example(OAUTH, name))
    url = credentials.client_metadata_url
    if url is None:
        return
    at = (*_AT, "client_metadata_url")
    if credentials.client_id is not None:
        problems.add(at, "client_metadata_url replaces client_id: only one of them can be set")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or parts.path in ("", "/"):
        problems.add(at, "client_metadata_url must begin with https:// and have a path")


#: An ensemble has ``OPEN_DEADLINE`` to connect; the rest is for ending a slow server.
_LONGEST = OPEN_DEADLINE - 2
_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", shape="the name of a header")


#: The built-in transports.
TRANSPORTS = ("stdio", "http", "sse")

CONNECTION = Table(
    "[connection]",
    "A server of the Model Context Protocol.",
    (
        Key(
            "transport",
            Text(choices=TRANSPORTS),
            "stdio for a command, http for a URL, sse for the URL of an old server, or one of a plugin.",
            example="http",
        ),
        Key(
            "command",
            _Command(Text(blank=True), "strings: a program and its arguments"),
            "The program that starts it, with its arguments; without a shell and without templates.",
            example=[*_EXAMPLE],
        ),
        Key(
            "environment",
            Named(VARIABLE_NAME, _VARIABLE, expected="a table of variables"),
            "Environment variables in addition to PATH, LANG, TZ, TMPDIR and HOME.",
            example={"TOKEN": "{env:TIME_TOKEN}"},
        ),
        Key(
            "directory",
            Text(pattern=r"[^\x00-\x1f]+", shape="a path of a folder"),
            "The folder that it runs in, relative to the workspace. Default: the workspace.",
            example="/srv/server",
        ),
        Key("url", Url(), "The URL of the server.", example="https://example.org/mcp"),
        Key(
            "headers",
            Named(_HEADER_NAME, _VARIABLE, expected="a table of headers"),
            "Headers of every request.",
            example={"Authorization": "Bearer {env:TIME_TOKEN}"},
        ),
        Key("oauth", OAUTH, "The way to a token for the URL, if it requires one."),
        Key(
            "timeout",
            Number(above=0, maximum=_LONGEST, unit="seconds"),
            "Seconds in which it must start and list its tools.",
            25,
            10,
        ),
    ),
)


def connection_table(transports: Mapping[str, McpTransport]) -> Table:
    """The keys of ``[connection]`` with those of plugins' transports, each in a table of its name.

    Errors: ``PluginFailure`` for a name that is a key or a built-in transport.
    """
    for name in transports:
        if name in (*TRANSPORTS, *CONNECTION.known):
            raise PluginFailure(
                name, "the name of a transport cannot be a key of [connection] or a built-in transport."
            )
    first, *others = CONNECTION.keys
    choice = dataclasses.replace(first, kind=Text(choices=(*TRANSPORTS, *transports)))
    own = (one.table.key(name) for name, one in transports.items())
    return dataclasses.replace(CONNECTION, keys=(choice, *others, *own))


def templates_in(value: Any) -> Iterator[Template]:
    """The templates in the settings of a transport."""
    if isinstance(value, Template):
        yield value
    elif is_table(value) or is_list(value):
        for one in value.values() if is_table(value) else value:
            yield from templates_in(one)


def filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """The settings of a transport with the values of variables."""
    if isinstance(value, Template):
        return value.text({}, secrets)
    if is_table(value):
        return {name: filled(one, secrets) for name, one in value.items()}
    return [filled(one, secrets) for one in value] if is_list(value) else value


#: Keys of one transport only.
_OF_STDIO = ("command", "environment", "directory")
_OF_HTTP = ("url", "headers", "oauth")


class ServerSettings(Value, kw_only=True):
    """The settings of one server: a command, a URL, or the keys of a plugin's transport (``own``)."""

    transport: str = "stdio"
    command: tuple[str, ...] | None = None
    environment: frozendict[str, Template] = frozendict()
    directory: str = "."
    url: str | None = None
    headers: frozendict[str, Template] = frozendict()
    oauth: Credentials | None = None
    own: Mapping[str, Any] | None = None
    timeout: float = 25.0


def read_connection(
    descriptor: EnsembleDescriptor, problems: Problems, transports: Mapping[str, McpTransport] = EMPTY
) -> ServerSettings | None:
    """The settings of ``[connection]``; None after problems were added. ``transports`` are those of plugins."""
    if descriptor.connection is None:
        return None
    before = len(problems)
    settings = connection_table(transports).read(descriptor.connection.settings, ("connection",), problems)
    if settings is INVALID:
        return None
    transport = settings.setdefault("transport", "http" if "url" in settings else "stdio")
    owners = {
        **dict.fromkeys(_OF_STDIO, ("stdio",)),
        **dict.fromkeys(_OF_HTTP, ("http", "sse")),
        **{name: (name,) for name in transports},
    }
    for name, owner in owners.items():
        if name in settings and transport not in owner:
            message = f"{name} belongs to the transport {' or '.join(owner)}, but this one is {transport}"
            problems.add(("connection", name), message)
    if transport in transports:
        if transport not in settings:
            # Its table may have required keys.
            transports[transport].table.read({}, ("connection", transport), problems)
        settings["own"] = settings.pop(transport, EMPTY)
        return None if len(problems) > before else ServerSettings(**settings)
    needed = "command" if transport == "stdio" else "url"
    if needed not in settings:
        problems.add(("connection",), f"[connection] lacks {needed}", _show_example(CONNECTION, needed))
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
        problems.add(at, "an argument of a program cannot contain NUL")
