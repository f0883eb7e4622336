"""The contract of origins, which plugins implement: ``Origin``, ``Connected`` and ``Outcome``."""

import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
from frozendict import frozendict

from ripieno.canisters.faults import Change
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.json_schema import settings_table
from ripieno.descriptors.policies import Hosted
from ripieno.descriptors.reader.keys import Table
from ripieno.descriptors.reader.kinds import Kind, Named, Several
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.descriptors.templates import Template
from ripieno.ensembles.ensemble import Foresight, Invocable
from ripieno.ensembles.surroundings import Surroundings
from ripieno.exceptions import Problem
from ripieno.jsonvalues import EMPTY, is_list, is_table
from ripieno.lazy.modules import asyncio
from ripieno.storage.pins import Pin, pin_command
from ripieno.values import Value


class Connected(Value, kw_only=True):
    """An open origin.

    ``definitions`` are the discovered tools; ``bind`` makes the invocable of a declared or discovered one.
    ``subscribe`` takes a function that gets all definitions after each change while it is open. ``foresee`` returns
    the preview of a tool's calls, if there is one. ``left_out`` has the names of the discovered tools that it does not
    provide, with reasons; it may change together with the definitions.
    """

    connection: Any = None
    definitions: tuple[InvokerDescriptor, ...] = ()
    bind: Callable[[InvokerDescriptor], Invocable | None]
    subscribe: Callable[[Callable[[tuple[InvokerDescriptor, ...]], None]], None] | None = None
    hosted: Hosted = "here"
    foresee: Callable[[InvokerDescriptor], Foresight | None] = lambda _: None
    left_out: Mapping[str, str] = msgspec.field(default_factory=frozendict[str, str])


@runtime_checkable
class Placeholders(Protocol):
    """A parsed value with placeholders: a template, or a structure of templates."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The arguments that it uses."""
        ...


class NeededVariable(Value, kw_only=True):
    """An environment variable that a descriptor names.

    ``key`` leads to it from ``[connection]``, or from the ``[invocable]`` of ``invoker``.
    """

    name: str
    key: Path = ()
    invoker: InvokerDescriptor | None = None


class NeededProgram(Value, kw_only=True):
    """A program that an origin starts: its ``argv``, and the names of the variables that it gets.

    ``key`` leads to it from ``[connection]``, or from the ``[invocable]`` of ``invoker``. A program without a slash is
    searched in ``PATH``, and ``./name`` beneath the descriptor's folder. ``replaced``: the origin has a substitute for
    a missing program.
    """

    argv: tuple[str, ...]
    key: Path = ()
    invoker: InvokerDescriptor | None = None
    environment: tuple[str, ...] = ()
    replaced: bool = False


class Origin(Protocol):
    """A kind of source of invokers. Plugins write these.

    ``name`` is the value of ``origin = "…"``. ``tables`` has the keys that it adds to the tables ``connection`` and
    ``invocable``: other keys, and a table that is not in it, are refused. Without any, both accept all keys.
    ``tables``, ``variables``, ``programs`` and ``at_once`` are optional, also for a class that does not inherit.
    ``variables`` and ``programs`` are called only for descriptors that the tables accept.
    """

    name: str
    tables: Mapping[str, Table] = EMPTY

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        """Further problems of the parts of a descriptor that belong to this origin. Imports nothing, does no I/O."""
        ...

    def variables(self, descriptor: EnsembleDescriptor) -> Iterable[NeededVariable]:
        """The variables that it needs; by default those in values of the kind ``TemplateText(variables=True)``."""
        tables = tables_of(self)
        for place in _places(self, descriptor):
            for template, key in _templates(tables.get(place.table), place.settings, ()):
                for name in template.variables if isinstance(template, Template) else ():
                    yield NeededVariable(name=name, key=key, invoker=place.invoker)

    def programs(self, descriptor: EnsembleDescriptor) -> Iterable[NeededProgram]:
        """The programs that it starts; by default the list ``command`` of ``[connection]``."""
        connection = descriptor.connection
        if connection is None or connection.origin != self.name:
            return
        command, environment = (connection.settings.get(name) for name in ("command", "environment"))
        if is_list(command) and command and all(isinstance(one, str) for one in command):
            names = tuple(map(str, environment)) if is_table(environment) else ()
            yield NeededProgram(argv=tuple(command), key=("command", 0), environment=names)

    def open(
        self, descriptor: EnsembleDescriptor, surroundings: Surroundings
    ) -> contextlib.AbstractAsyncContextManager[Connected]:
        """Connects, and disconnects at the end. One task enters and leaves it.

        ``descriptor.connection`` is None, or another origin's, if only invokers name this origin. Its ``settings`` are
        the values of the TOML; ``Table.read`` reads them. If the connection is lost later, ``open`` raises at its
        ``yield`` (see ``while_connected``). It is then entered again after a pause, and ``bind`` is called again; calls
        made until then reach the old invocables, which raise ``NetworkFault``, or ``OutcomeUnknownFault`` if the call
        may have been made. Errors: ``ConnectionFailure``.
        """
        ...

    def at_once(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected | None:  # noqa: ARG002
        """The value of ``open``, if it opens nothing for this descriptor; None if it does, the default.

        With it, tools are listed without an event loop. Calls are made after ``open`` only.
        """
        return None


class McpTransport(Protocol):
    """A way to reach MCP servers. Plugins write these.

    ``table`` has its keys, in a table of its name: ``[connection.my-transport]``.
    """

    table: Table

    def open(
        self, settings: Mapping[str, Any], surroundings: Surroundings
    ) -> contextlib.AbstractAsyncContextManager[tuple[Any, Any]]:
        """The streams of messages from and to the server, as the transports of the MCP SDK yield them.

        ``settings`` are the given keys, with the values of variables. One task enters and leaves it. Errors: any; the
        message says why the server cannot be reached. The stream from the server ends when the connection is lost.
        """
        ...


@contextlib.asynccontextmanager
async def while_connected(lost: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """For the ``yield`` of ``Origin.open``: cancels the body and raises the error of ``lost`` when that raises.

    ``lost`` waits for the end of the connection, and is cancelled when the body ends first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(lost)
            try:
                yield
            finally:
                watcher.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


def tables_of(origin: Origin) -> Mapping[str, Table]:
    """The keys that an origin adds, by table."""
    tables: Mapping[str, Table] = getattr(origin, "tables", EMPTY)
    return tables


def needed_variables(origin: Origin, descriptor: EnsembleDescriptor) -> tuple[NeededVariable, ...]:
    """The variables that an ensemble needs for an origin."""
    needed = getattr(origin, "variables", functools.partial(Origin.variables, origin))
    return () if check_tables(origin, descriptor) else tuple(needed(descriptor))


def needed_programs(origin: Origin, descriptor: EnsembleDescriptor) -> tuple[NeededProgram, ...]:
    """The programs that an ensemble starts by an origin."""
    needed = getattr(origin, "programs", functools.partial(Origin.programs, origin))
    return () if check_tables(origin, descriptor) else tuple(needed(descriptor))


def opened_at_once(origin: Origin, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected | None:
    """The value of ``open`` of an origin that opens nothing for an ensemble; None for others."""
    open_now = getattr(origin, "at_once", functools.partial(Origin.at_once, origin))
    opened: Connected | None = open_now(descriptor, surroundings)
    return opened


def unused_arguments(origin: Origin, descriptor: EnsembleDescriptor) -> Iterator[tuple[InvokerDescriptor, str]]:
    """The declared arguments that no template of their invoker names. A tool without templates may read any."""
    tables = tables_of(origin)
    for place in _places(origin, descriptor):
        templates = [one for one, _ in _templates(tables.get(place.table), place.settings, ())]
        if place.invoker is not None and templates:
            used = {name for template in templates for name in template.placeholders}
            used.add(place.invoker.policy.timeout_argument or "")
            properties: Any = place.invoker.arguments.get("properties", EMPTY)
            yield from ((place.invoker, name) for name in properties if name not in used)


def pin_programs(origin: Origin, descriptor: EnsembleDescriptor) -> Pin | None:
    """The pin of the programs that a connection starts; None if it starts none."""
    started = [one for one in needed_programs(origin, descriptor) if one.invoker is None]
    names = {name for one in started for name in one.environment}
    return pin_command(descriptor.name, [one.argv for one in started], names)


def check_origin(origin: Origin, descriptor: EnsembleDescriptor) -> tuple[Problem, ...]:
    """All problems of the parts of a descriptor that belong to this origin."""
    found = check_tables(origin, descriptor)
    refused = {(problem.file, problem.key) for problem in found}
    return (*found, *(one for one in origin.check(descriptor) if (one.file, one.key) not in refused))


def check_tables(origin: Origin, descriptor: EnsembleDescriptor) -> tuple[Problem, ...]:
    """The problems that the tables of an origin find."""
    tables = _whole_tables(origin)
    found: dict[str | None, Problems] = {}
    for place in _places(origin, descriptor) if tables else ():
        problems = found.setdefault(place.file, Problems(Source(file=place.file)))
        _check_settings(origin, tables.get(place.table), place.settings, place.path, problems)
    return tuple(problem for problems in found.values() for problem in problems.finished())


def check_invocable(origin: Origin, settings: Mapping[str, Any], problems: Problems) -> None:
    """Adds the problems that the tables of an origin find in ``[invocable]`` of an invoker's file."""
    if tables := _whole_tables(origin):
        _check_settings(origin, tables.get("invocable"), settings, ("invocable",), problems)


def _whole_tables(origin: Origin) -> Mapping[str, Table]:
    return {name: settings_table(name, own) for name, own in tables_of(origin).items()}


def _check_settings(
    origin: Origin, table: Table | None, settings: Mapping[str, Any], path: Path, problems: Problems
) -> None:
    if table is not None:
        table.read({"origin": origin.name, **settings}, path, problems)
    elif path == ("connection",):
        hint = "Delete [connection], and give each invoker an [invocable] of this origin."
        problems.add((*path, "origin"), f"nothing can be connected to the origin {origin.name}", hint)
    else:
        hint = "Its tools come from [connection]: delete this one, and write what differs under [overrides.NAME]."
        problems.add((*path, "origin"), f"an invoker cannot be declared for the origin {origin.name}", hint)


class _Place(Value, kw_only=True):
    """One table of a descriptor that an origin reads: ``[connection]``, or the ``[invocable]`` of an invoker."""

    table: str
    settings: Mapping[str, Any]
    path: Path
    file: str | None
    invoker: InvokerDescriptor | None = None


def _places(origin: Origin, descriptor: EnsembleDescriptor) -> Iterator[_Place]:
    connection = descriptor.connection
    if connection is not None and connection.origin == origin.name:
        yield _Place(table="connection", settings=connection.settings, path=("connection",), file=descriptor.file)
    for invoker, path in descriptor.located():
        if invoker.invocable.origin == origin.name:
            settings, at = invoker.invocable.settings, (*path, "invocable")
            yield _Place(table="invocable", settings=settings, path=at, file=invoker.file, invoker=invoker)


def _templates(kind: Kind | None, value: Any, key: Path) -> Iterator[tuple[Placeholders, Path]]:
    """The templates in a value, by its kind; an invalid value has none."""
    if isinstance(kind, Table | Named) and is_table(value):
        for name, item in value.items():
            inner = kind.kind if isinstance(kind, Named) else kind.known[name].kind if name in kind.known else None
            yield from _templates(inner, item, (*key, name))
    elif isinstance(kind, Several) and is_list(value):
        for index, item in enumerate(value):
            yield from _templates(kind.item, item, (*key, index))
    elif kind is not None:
        read = kind.read(value, key, Problems(Source()))
        if isinstance(read, Placeholders):
            yield read, key


class Outcome(Value, kw_only=True):
    """The detailed return value of an invocable: its content with an exit code, changes and sizes.

    ``content`` is a string, JSON, a content, or a sequence of contents. Sizes are in bytes. ``stdout_bytes`` is the
    size of what precedes standard error in a text, if it has both. ``sandbox`` is the name of the program's sandbox.
    """

    content: object = ""
    exit_code: int | None = None
    changes: tuple[Change, ...] = ()
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    total_bytes: int | None = None
    stdout_bytes: int | None = None
    sandbox: str | None = None
