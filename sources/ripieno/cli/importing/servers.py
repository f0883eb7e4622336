"""The servers in the configuration file of any MCP client. Pure."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from frozendict import frozendict

from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list, is_table
from ripieno.values import Value

Transport: TypeAlias = Literal["stdio", "http", "sse"]

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
_TYPES: Mapping[str, Transport] = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_URLS = ("httpUrl", "serverUrl", "url")
_ALL = "*"
_EXPECTED = 'mcpServers, servers, mcp.servers and projects.*.mcpServers, such as {"mcpServers": {"NAME": {...}}}'
#: Timeouts from here on are in milliseconds, smaller ones in seconds.
_MILLISECONDS = 1000


class ServerEntry(Value, kw_only=True):
    """A server as written in the file. ``inputs`` are the descriptions of the client's input prompts."""

    name: str
    place: str
    table: Any
    inputs: Mapping[str, str] = msgspec.field(default_factory=frozendict[str, str])
    disabled: bool = False
    #: Whether a plain ``url`` means server-sent events, as in clients that also have ``httpUrl``.
    events: bool = False


class Server(Value, kw_only=True):
    """A server that could be read. ``left_out`` lists what was not imported, without any values."""

    name: str
    transport: Transport
    command: tuple[str, ...] = ()
    url: str = ""
    values: Mapping[str, str] = msgspec.field(default_factory=frozendict[str, str])
    directory: str | None = None
    timeout: float | None = None
    description: str = ""
    enabled: bool = True
    excluded: tuple[str, ...] = ()
    included: tuple[str, ...] | None = None
    approved: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def parse(text: str) -> Any:
    """The value of JSON with optional comments and trailing commas.

    Errors: ``InputError`` with line and column, and nothing of the text.
    """
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(_blank, text)
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}.") from None
    except (ValueError, RecursionError):
        raise InputError("the JSON cannot be read: a number is too long, or it is nested too deeply.") from None


def _blank(found: re.Match[str]) -> str:
    """A string as it is; anything else as blanks, so that positions stay the same."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def find_entries(document: Any) -> tuple[ServerEntry, ...]:
    """Every server in the file. Errors: ``InputError`` with the keys that were searched."""
    if not is_table(document):
        raise InputError(f"it is not an object. Expected: {_EXPECTED}.")
    found: list[ServerEntry] = []
    places: list[str] = []
    for place, holder, servers in _containers(document):
        places.append(place)
        if not is_table(servers):
            raise InputError(f"{place} must be an object with servers by name.")
        events = any(is_table(one) and "httpUrl" in one for one in servers.values())
        inputs = _inputs(holder.get("inputs"))
        for name, table in servers.items():
            disabled = _is_disabled(name, holder)
            found.append(
                ServerEntry(name=name, place=place, table=table, inputs=inputs, disabled=disabled, events=events)
            )
    if not found:
        what = f": {' and '.join(places)} {'are' if len(places) > 1 else 'is'} empty" if places else ""
        raise InputError(f"it has no servers{what}. Expected: {_EXPECTED}.")
    return tuple(found)


def _containers(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """The places with servers: the name of the place, the object around the servers, and the servers."""
    for key in ("mcpServers", "servers", "mcp.servers"):
        if key in document:
            yield key, document, document[key]
    inner = document.get("mcp")
    if is_table(inner) and "servers" in inner:
        yield "mcp.servers", inner, inner["servers"]
    projects = document.get("projects")
    for path, project in projects.items() if is_table(projects) else ():
        if is_table(project) and project.get("mcpServers"):
            yield f"projects.{path}.mcpServers", project, project["mcpServers"]


def _inputs(inputs: Any) -> Mapping[str, str]:
    tables = [one for one in inputs if is_table(one)] if is_list(inputs) else []
    return {one["id"]: str(one.get("description") or "") for one in tables if isinstance(one.get("id"), str)}


def _is_disabled(name: str, holder: Mapping[str, Any]) -> bool:
    given = holder.get("mcp")
    rules: Any = given if is_table(given) else {}
    off = [*_names(rules.get("excluded")), *_names(holder.get("disabledMcpServers"))]
    allowed = _names(rules.get("allowed"))
    return name in off or (bool(allowed) and name not in allowed)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if is_list(value) else ()


def read_entry(entry: ServerEntry) -> Server:
    """The server. Errors: ``InputError`` without any of its values."""
    if not is_table(entry.table):
        raise InputError("it must be an object with command or url.")
    reader = _Reader(entry.table)
    transport = _transport(reader, entry)
    timeout = _timeout(reader)
    switched = (reader.flag("disabled"), not reader.flag("enabled", default=True), entry.disabled)
    excluded = (*reader.names("excludeTools"), *reader.names("disabledTools"))
    included = (*reader.names("includeTools"), *reader.names("enabledTools"), *reader.names("tools"))
    approved = (*reader.names("alwaysAllow"), *reader.names("autoApprove"))
    description = reader.text("description")
    if reader.flag("trust"):
        approved = (_ALL,)
    stdio = transport == "stdio"
    server = Server(
        name=entry.name,
        transport=transport,
        command=_command(reader) if stdio else (),
        url="" if stdio else next(reader.text(key) for key in _URLS if reader.has(key)),
        values=reader.values("env" if stdio else "headers"),
        directory=(reader.text("cwd") or None) if stdio else None,
        timeout=timeout,
        description=description,
        enabled=not any(switched),
        excluded=tuple(dict.fromkeys(excluded)),
        included=tuple(dict.fromkeys(included)) if included and _ALL not in included else None,
        approved=tuple(dict.fromkeys(approved)),
    )
    return dataclasses.replace(server, left_out=(*reader.notes, *reader.rest()))


def _transport(reader: "_Reader", entry: ServerEntry) -> Transport:
    """The transport. Errors: ``InputError`` if it is missing or contradictory."""
    kind = reader.text("type") or reader.text("transport") or reader.text("transportType")
    url = next((key for key in _URLS if reader.has(key)), None)
    command = reader.has("command")
    if kind:
        transport = _TYPES.get(re.sub(r"[-_ ]", "", kind.lower()))
        if transport is None:
            raise InputError('its type must be "stdio", "http" or "sse".')
        if not (command if transport == "stdio" else url):
            raise InputError(f"its type is {transport}, but it has no {'command' if transport == 'stdio' else 'url'}.")
        return transport
    if command and url:
        raise InputError(f'it has both command and {url}. Set type: "stdio", "http" or "sse".')
    if command:
        return "stdio"
    if url is None:
        raise InputError("it has neither command nor url (nor httpUrl, nor serverUrl).")
    path = reader.text(url).partition("?")[0].rstrip("/")
    events = url != "httpUrl" and (path.endswith("/sse") or (url == "url" and entry.events))
    guess: Transport = "sse" if events else "http"
    if url != "httpUrl":
        reader.notes.append(f'assumed: transport = "{guess}", since the type of its url is not given')
    return guess


def _timeout(reader: "_Reader") -> float | None:
    """The timeout in seconds. Most clients use milliseconds, a few seconds."""
    value = reader.take("timeout")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        if value is not None:
            reader.notes.append("timeout: not a number above 0")
        return None
    return value / 1000 if value >= _MILLISECONDS else value


def _command(reader: "_Reader") -> tuple[str, ...]:
    """A program and its arguments, without the shell that Windows needs for some programs."""
    given = reader.take("args")
    arguments: Any = () if given is None else given
    if not is_list(arguments):
        raise InputError("args must be a list of strings.")
    command = (reader.text("command").strip(), *(_scalar(one, "args") for one in arguments))
    if not arguments and re.match(r"[^\s/\\]+\s", command[0]):
        reader.notes.append("command: one text, split at its spaces")
        command = tuple(command[0].split())
    if re.fullmatch(r"(?:.*\\)?cmd(?:\.exe)?", command[0], re.IGNORECASE):
        inner = command[1:]
        while inner and inner[0].startswith("/"):
            inner = inner[1:]
        if not inner or not inner[0].strip():
            raise InputError("its command is the shell of Windows without a program.")
        reader.notes.append("command: the wrapper cmd /c, which only Windows needs")
        command = inner
    return command


def _scalar(value: Any, where: str) -> str:
    """A text. Numbers and booleans are written as JSON. Errors: ``InputError``."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        raise InputError(f"{where} must contain only texts.")
    if "\0" in value or re.search("[\ud800-\udfff]", value):
        raise InputError(f"{where} contains a character that cannot be passed to a process.")
    return value


class _Reader:
    """Reads keys of a server's table, and reports the ones that were not read."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._taken: set[str] = set()
        self.notes: list[str] = []

    def take(self, key: str) -> Any:
        self._taken.add(key)
        return self._table.get(key)

    def has(self, key: str) -> bool:
        """Whether a key has a value. Does not count as reading it."""
        return self._table.get(key) not in (None, "")

    def text(self, key: str) -> str:
        """A text; empty if missing. Errors: ``InputError`` for anything else."""
        value: Any = self.take(key)
        if not isinstance(value, str | None):
            raise InputError(f"{key} must be a text.")
        return "" if value is None or not value.strip() else _scalar(value, key)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false; anything else is noted."""
        value = self.take(key)
        if not isinstance(value, bool | None):
            self.notes.append(f"{key}: neither true nor false")
        return value if isinstance(value, bool) else default

    def names(self, key: str) -> tuple[str, ...]:
        """Names of tools; anything else is noted."""
        value = self.take(key)
        names = _names(value)
        if value is not None and not (is_list(value) and len(names) == len(value)):
            self.notes.append(f"{key}: not a list of names")
        return tuple(name for name in names if name.strip() and not re.search("[\0\ud800-\udfff]", name))

    def values(self, key: str) -> Mapping[str, str]:
        """Texts by name; null is noted. Errors: ``InputError`` for anything else."""
        given = self.take(key)
        table: Any = {} if given is None else given
        if not is_table(table):
            raise InputError(f"{key} must be an object of texts.")
        self.notes += [f"{key}.{name}: null" for name, value in table.items() if value is None]
        return {name: _scalar(value, key) for name, value in table.items() if value is not None}

    def rest(self) -> Iterator[str]:
        """A note for every key that was not read."""
        return (f"{key}: {_WHY.get(key, 'not supported')}" for key in self._table if key not in self._taken)


_WHY: Mapping[str, str] = {
    "envFile": "not read; list the variables that the server needs under [connection.environment]",
    "headers": "only a url has headers",
    "env": "only a command has an environment",
    "args": "only a command has arguments",
    "cwd": "only a command has a folder",
    "oauth": 'to sign in, set oauth = { grant = "authorization_code" } under [connection], and run: ripieno login',
}
