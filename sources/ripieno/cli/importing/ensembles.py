"""The TOML of an ensemble for a server of an MCP client. Literal values become variables. Pure."""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import tomli_w
from frozendict import frozendict

from ripieno.cli.importing.secrets import (
    HOME,
    WORKSPACE,
    Part,
    Reference,
    Secret,
    find_references,
    holds_secret,
    read_arguments,
    read_value,
    variable_name,
)
from ripieno.cli.importing.servers import Server, ServerEntry
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.ensembles.owner import OPEN_DEADLINE
from ripieno.exceptions import InputError, NameAbsence
from ripieno.jsonvalues import is_list, is_table
from ripieno.origins.mcp.settings import read_connection
from ripieno.values import Value

#: The maximum length of an ensemble's name, in characters.
_LENGTH = 64
#: The maximum time for a server to start, and for a call, in seconds.
_LONGEST_START, _LONGEST_CALL = OPEN_DEADLINE - 2, 86_400
#: Variables that every shell sets.
_PRESENT = frozenset({HOME, "PATH"})


class Made(Value, kw_only=True):
    """An ensemble's tables. ``variables`` maps variables to set to their purposes; ``notes`` lists omissions.

    ``comments`` explain the timeout of a table, by the table's name.
    """

    server: str
    ensemble: str
    transport: str
    tables: Mapping[str, Any]
    variables: Mapping[str, str]
    notes: tuple[str, ...]
    approve: tuple[str, ...]
    comments: Mapping[str, str] = msgspec.field(default_factory=frozendict[str, str])

    @property
    def text(self) -> str:
        """The tables as TOML, with comments before the timeouts."""
        lines: list[str] = []
        table = ""
        for line in tomli_w.dumps(self.tables).splitlines(keepends=True):
            if line.startswith("["):
                table = line.strip("[]\n")
            if line.startswith("timeout = ") and table in self.comments:
                lines.append(f"# {self.comments[table]}\n")
            lines.append(line)
        return "".join(lines)


class Variables:
    """The names of variables in use: two values never share one.

    The values of entries named in ``keep`` stay in the file; ``names`` collects all names of entries.
    """

    def __init__(self, entries: Iterable[ServerEntry], keep: Collection[str]) -> None:
        self._keep = keep
        self.names: set[str] = set()
        #: The value of each variable, or None for one that the file refers to.
        self._held: dict[str, str | None] = {name: None for entry in entries for name in _referred(entry.table)}

    def claim(self, hint: str, secret: str, ensemble: str, taken: Mapping[str, str]) -> str:
        """A name for a secret, from those of the ensemble and the entry. ``taken`` are the server's variables."""
        owner, plain = variable_name(ensemble), variable_name(hint or "argument")
        full = plain if plain.startswith(f"{owner}_") else f"{owner}_{plain}"
        candidates = [full, *(f"{full}_{number}" for number in range(2, len(self._held) + 3))]
        places = ((name, _place(name)) for name in candidates)
        name = next(one for one, at in places if self._held.get(one, secret) == secret and taken.get(one, at) == at)
        self._held[name] = secret
        return name

    def keeps(self, *names: str) -> bool:
        """Whether the value of an entry with these names stays."""
        self.names.update(names)
        return any(name in self._keep for name in names)

    def check(self) -> None:
        """Errors: ``NameAbsence`` for a name to keep that no entry has."""
        for name in self._keep:
            if name not in self.names:
                raise NameAbsence("entry", name, self.names)


def _referred(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [part.name for part in find_references(value) if isinstance(part, Reference)]
    items = value.values() if is_table(value) else value if is_list(value) else ()
    return [name for item in items for name in _referred(item)]


def _place(name: str) -> str:
    return f"{{env:{name}}}"


def propose_name(server: str) -> str:
    """A valid name for the ensemble."""
    name = re.sub(r"[^a-z0-9_-]+", "-", server.lower()).strip("-_")
    if not name:
        return "server"
    return (name if name[0].isalpha() else f"mcp-{name}")[:_LENGTH].rstrip("-_")


def make(server: Server, ensemble: str, inputs: Mapping[str, str], variables: Variables) -> Made:
    """The ensemble. Errors: ``InputError`` for what TOML cannot express, with an alternative."""
    maker = _Maker(ensemble, inputs, variables)
    connection: dict[str, Any] = {"origin": "mcp", "transport": server.transport}
    if server.transport == "stdio":
        directory = _directory(server.directory)
        environment = maker.environment(server.values)
        connection["command"] = maker.command(server.command, environment, moved=directory is not None)
        if environment:
            connection["environment"] = environment
        if directory is not None:
            connection["directory"] = directory
    else:
        connection["url"] = maker.url(server.url)
        headers = {name: maker.text(name, value, header=True) for name, value in server.values.items()}
        if headers:
            connection["headers"] = headers
    defaults: dict[str, Any] = {}
    comments: dict[str, str] = {}
    if server.timeout is not None:
        connection["timeout"] = min(_plain(server.timeout), _plain(_LONGEST_START))
        defaults["timeout"] = min(_plain(server.timeout), _LONGEST_CALL)
        # A client has one timeout for both.
        comments["defaults"] = "The maximum time of a call, in seconds."
        most = f"; at most {_plain(_LONGEST_START)}" if server.timeout > _LONGEST_START else ""
        comments["connection"] = f"The maximum time for the server to start and list its tools, in seconds{most}."
    tables = {
        "ensemble": _header(server, ensemble),
        "defaults": defaults,
        "connection": connection,
        "overrides": {name: {"enabled": False} for name in server.excluded},
    }
    tables = {name: table for name, table in tables.items() if table}
    _check(tables)
    return Made(
        server=server.name,
        ensemble=ensemble,
        transport=server.transport,
        tables=tables,
        variables=maker.wanted,
        notes=(*server.left_out, *maker.notes, *_selection(server)),
        approve=tuple(ensemble if name == "*" else f"{ensemble}.{name}" for name in server.approved),
        comments=comments,
    )


def _check(tables: Mapping[str, Any]) -> None:
    descriptor, found = read_ensemble(tables)
    if descriptor is not None:
        problems = Problems(Source())
        read_connection(descriptor, problems)
        found = problems.finished()
    if found:
        raise InputError("; ".join(f"{one.message}{f'. {one.hint}' if one.hint else ''}" for one in found))


def _header(server: Server, ensemble: str) -> dict[str, Any]:
    description = " ".join(server.description.split())
    if not description or holds_secret(description):
        description = f"Tools of the MCP server {propose_name(server.name)}"
    # Optional, because clients start without a server that fails.
    header: dict[str, Any] = {"name": ensemble, "description": description, "required": False}
    return header if server.enabled else {**header, "enabled": False}


def _selection(server: Server) -> Iterable[str]:
    if server.included is not None:
        names = ", ".join(server.included)
        yield (
            f"the choice of tools ({names}): all tools are offered. To offer only these, write enabled = false under "
            "[defaults], and [overrides.TOOL] enabled = true for each"
        )
    if server.approved:
        yield "approval without asking: see below"


def _directory(text: str | None) -> str | None:
    """The folder; None for the workspace. Errors: ``InputError`` for one with a variable."""
    if text is None:
        return None
    values = {HOME: os.path.expanduser("~"), WORKSPACE: "."}
    parts = find_references(text, bare=False)
    if any(isinstance(part, Reference) and part.name not in values for part in parts):
        raise InputError("its cwd contains a variable, which is not supported: write the path.")
    path = "".join(part if isinstance(part, str) else values[part.name] for part in parts)
    if re.search(r"[\x00-\x1f]", path):
        raise InputError("its cwd contains control characters.")
    path = os.path.normpath(os.path.expanduser(path))
    return None if path == "." else path


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


class _Maker:
    """Makes the values of one ensemble, and collects the variables to set, and notes."""

    def __init__(self, ensemble: str, inputs: Mapping[str, str], variables: Variables) -> None:
        self._ensemble = ensemble
        self._inputs = inputs
        self._variables = variables
        self.wanted: dict[str, str] = {}
        self.notes: list[str] = []

    def environment(self, values: Mapping[str, str]) -> dict[str, str]:
        made: dict[str, str] = {}
        for name, value in values.items():
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                made[name] = self.text(name, value)
            else:
                self.notes.append(f"env.{name}: not a valid name of a variable")
        return made

    def url(self, text: str) -> str:
        """The URL. Errors: ``InputError`` if it contains a secret or a variable."""
        if any(isinstance(part, Reference) for part in find_references(text, bare=False)):
            raise InputError("its url contains a variable, which is not supported: write the address.")
        if holds_secret(text) and not self._variables.keeps("url"):
            raise InputError("its url may contain a secret. Move it to headers, or use --keep url if it is none.")
        return text

    def text(self, name: str, value: str, *, header: bool = False) -> str:
        """A template for the value. Errors: ``InputError`` for an invalid header."""
        pieces: list[str] = []
        for part in find_references(value) if self._variables.keeps(name) else read_value(name, value):
            if isinstance(part, str):
                if header and not re.fullmatch(r"[\t\x20-\x7e]*", part):
                    raise InputError(f"the header {name} has characters that are not allowed in headers.")
                pieces.append(part.replace("{", "{{").replace("}", "}}"))
            elif isinstance(part, Reference) and part.name == WORKSPACE:
                pieces.append(".")
            else:
                what = f"the header {name}" if header else name
                after = f", the part after {pieces[0].strip()}" if isinstance(part, Secret) and pieces else ""
                pieces.append(_place(self._name(part, name, {}, what + after)))
        return "".join(pieces)

    def command(self, command: Sequence[str], environment: dict[str, str], *, moved: bool) -> list[str]:
        """The command; through a shell if arguments contain variables, because arguments are not templates."""
        program = _program(command[0])
        words: list[str] = []
        filled = False
        for number, (hint, parts) in enumerate(read_arguments(command[1:]), 1):
            pieces: list[str] = []
            for part in self._with_kept(parts, hint, environment):
                if isinstance(part, str):
                    pieces.append(shlex.quote(part))
                    continue
                filled = True
                pieces.append(f'"${{{self._variable(part, hint, number, environment, moved=moved)}}}"')
            words.append("".join(pieces) or "''")
        if not filled:
            return [program, *command[1:]]
        self.notes.append("arguments with variables: sh expands them")
        return ["sh", "-c", " ".join(["exec", shlex.quote(program), *words])]

    def _with_kept(self, parts: Iterable[Part], hint: str, environment: Mapping[str, str]) -> Iterable[Part]:
        for part in parts:
            if isinstance(part, Secret):
                name = self._variables.claim(hint, part.value, self._ensemble, environment)
                yield part.value if self._variables.keeps(hint, name) else part
            else:
                yield part

    def _variable(
        self, part: Reference | Secret, hint: str, number: int, environment: dict[str, str], *, moved: bool
    ) -> str:
        """The process's variable for a place in an argument. Adds it to ``environment``."""
        if isinstance(part, Reference) and (part.name == HOME or part.name in environment):
            return part.name
        if isinstance(part, Reference) and part.name == WORKSPACE and not moved:
            return WORKSPACE
        if isinstance(part, Reference) and part.name == WORKSPACE:
            part = Reference("WORKSPACE_FOLDER", part.written)
        name = self._name(part, hint, environment, f"argument {number}")
        environment[name] = _place(name)
        return name

    def _name(self, part: Part, hint: str, taken: Mapping[str, str], what: str) -> str:
        """The name of the variable with the value. Adds it to ``wanted``."""
        if isinstance(part, Reference):
            name = part.name
            prompt = self._inputs.get(part.written[2:-1].removeprefix("input:"), "")
            if ":" in part.written and not part.written.startswith("${env:"):
                what += f"; written there as {part.written}"
            if prompt and not holds_secret(prompt):
                what += f": {' '.join(prompt.split())}"
            if part.defaulted:
                self.notes.append(f"the default of {part.name}: set the variable instead")
            if name in _PRESENT:
                return name
        else:
            value = part.value if isinstance(part, Secret) else part
            name = self._variables.claim(hint, value, self._ensemble, taken)
        self.wanted.setdefault(name, what)
        return name


def _program(text: str) -> str:
    """The program. Errors: ``InputError`` for one with a variable, and for a relative path."""
    parts = find_references(text, bare=False)
    if any(isinstance(part, Reference) and part.name != HOME for part in parts):
        raise InputError("its command contains a variable: write the full path of the program.")
    program = "".join(part if isinstance(part, str) else os.path.expanduser("~") for part in parts)
    program = os.path.expanduser(program)
    if not program.strip():
        raise InputError("its command is empty.")
    if "/" in program and not program.startswith("/"):
        raise InputError("its command is a relative path: write the full path.")
    return program
