"""Everything that prevents a start, in one list: what loading found, what origins find, and patterns of agents."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.plugins import Registry
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.names import matches, split
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.ensembles import Ensemble, Origin
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import check_origin, tables_of
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem, RipienoError, nearest
from ripieno.jsonvalues import EMPTY


def find_failures(loaded: LoadedConfiguration) -> list[RipienoError]:
    """The problems of files as one error, in the order of files and lines; then the other failures of loading."""
    problems = list(problems_of(loaded.failures))
    others = [one for one in loaded.failures if not isinstance(one, ConfigurationInvalidity)]
    problems += check_origins([*loaded.ensembles, *loaded.unreadable], loaded.registry, reported=problems)
    problems += find_unmatched(loaded)
    if not problems:
        return others
    unique = dict.fromkeys(locate(problems))
    return [ConfigurationInvalidity(sorted(unique, key=lambda one: (one.file or "", one.line or 0))), *others]


def problems_of(failures: Iterable[RipienoError]) -> Iterator[Problem]:
    """The problems in files among the failures."""
    for failure in failures:
        if isinstance(failure, ConfigurationInvalidity):
            yield from failure.problems


def check_origins(
    descriptors: Iterable[EnsembleDescriptor], registry: Registry, *, reported: Iterable[Problem] = ()
) -> Iterator[Problem]:
    """Errors that the origins of ensembles report, and origins that do not exist. Those at a reported key are left out.

    The ensembles may be such as could be read only in part.
    """
    known = {(one.file, one.key) for one in reported}
    for descriptor in descriptors:
        for problem in _check(descriptor, registry):
            if (problem.file, problem.key) not in known:
                yield problem


def find_unmatched(
    loaded: LoadedConfiguration,
    connected: Mapping[str, Ensemble] = EMPTY,
    *,
    explain: Callable[[str], str] | None = None,
) -> tuple[Problem, ...]:
    """Problems for patterns of agents that name an enabled ensemble and match none of its tools.

    The tools of a connection are unknown until it is ``connected``. Other names may be those of a program's ensembles.
    They are reported as well if ``explain`` is given, which returns why an ensemble is not enabled, or nothing.
    """
    patterns = [
        (pattern, ("agents", name, "tools", index))
        for name, agent in loaded.configuration.agents.items()
        for index, pattern in enumerate(agent.tools or ())
    ]
    if not patterns:
        return ()
    # After a failure, the selection may be incomplete.
    ensembles = [*loaded.known.values()] if explain is not None and loaded.failures else [*loaded.ensembles]
    tools = {one.name: _tools_of(one, connected.get(one.name)) for one in ensembles if one.name not in loaded.unread}
    open_ended = [*loaded.unread, *(name for name, known in tools.items() if not known)]
    everything = [one for known in tools.values() for one in known]
    found: list[Problem] = []
    for pattern, path in patterns:
        name = split(pattern)[0]
        if any(matches(name, f"{one}.") for one in open_ended) or any(matches(pattern, one) for one in everything):
            continue
        if name in tools or explain is not None:
            message = f"{dotted(path)} is the pattern {pattern!r}, which matches no tool"
            absence = explain(name) if explain is not None and all(one.name != name for one in loaded.ensembles) else ""
            hint = absence or spelling(pattern, everything) or "To list the tools: ripieno tools"
            found.append(Problem(message=message, file=file_of(loaded.parts, path), key=dotted(path), hint=hint))
    return locate(found)


def require_tools(loaded: LoadedConfiguration, patterns: Iterable[str]) -> None:
    """Errors: ``NameAbsence`` for a pattern that names a known ensemble, enabled or not, and matches none of its tools.

    Other names may be those of another program's ensembles.
    """
    for pattern in patterns:
        name = split(pattern)[0]
        tools = [_tools_of(loaded.known[one], None) for one in loaded.known if matches(name, f"{one}.")]
        everything = [one for known in tools for one in known]
        is_open_ended = not all(tools) or any(matches(name, f"{one}.") for one in loaded.unread)
        if tools and not is_open_ended and not any(matches(pattern, one) for one in everything):
            raise NameAbsence("tool", pattern, everything)


def _tools_of(descriptor: EnsembleDescriptor, ensemble: Ensemble | None) -> list[str]:
    """The identities of the tools, also of those that are left out; none if they are unknown."""
    if ensemble is not None:
        return [f"{ensemble.name}.{name}" for name in (*ensemble.invokers, *ensemble.left_out)]
    if descriptor.connection is not None:
        return []
    return [f"{descriptor.name}.{one.name}" for one in descriptor.invokers if one.enabled]


def _check(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[Problem]:
    for name in needed_origins(descriptor):
        try:
            origin: Origin = registry.resolve("origins", name)
        except RipienoError as error:
            yield from _unknown(descriptor, name, error)
            if isinstance(error, NameAbsence):
                yield from _check_as_meant(descriptor, name, registry)
        else:
            yield from check_origin(origin, descriptor)


def _check_as_meant(descriptor: EnsembleDescriptor, name: str, registry: Registry) -> Iterator[Problem]:
    """The further problems of tables with an unknown origin, read as those of the origin that was probably meant.

    That is the most similar name; without one, the only origin that has any of the given keys.
    """
    named = [one.invocable for one in descriptor.invokers]
    given = [one.settings for one in (descriptor.connection, *named) if one is not None and one.origin == name]
    keys = {key for settings in given for key in settings}
    similar = nearest(name, registry.origins, 1)
    meant: list[Origin] = []
    for other in similar or registry.origins:
        with contextlib.suppress(RipienoError):
            origin: Origin = registry.resolve("origins", other)
            if similar or any(keys & table.known.keys() for table in tables_of(origin).values()):
                meant.append(origin)
    if len(meant) == 1:
        yield from check_origin(meant[0], _with_origin(descriptor, name, meant[0].name))


def _with_origin(descriptor: EnsembleDescriptor, name: str, other: str) -> EnsembleDescriptor:
    """The descriptor with another origin wherever it has that of a name."""
    connection = descriptor.connection
    if connection is not None and connection.origin == name:
        connection = dataclasses.replace(connection, origin=other)
    invokers = (
        dataclasses.replace(one, invocable=dataclasses.replace(one.invocable, origin=other))
        if one.invocable.origin == name
        else one
        for one in descriptor.invokers
    )
    return dataclasses.replace(descriptor, connection=connection, invokers=tuple(invokers))


def _unknown(descriptor: EnsembleDescriptor, name: str, error: RipienoError) -> Iterator[Problem]:
    """A problem at each table that names the origin."""
    connection = descriptor.connection
    places: list[tuple[str | None, Path]]
    places = [(descriptor.file, ("connection", "origin"))] if connection and connection.origin == name else []
    places += [
        (one.file, (*path, "invocable", "origin")) for one, path in descriptor.located() if one.invocable.origin == name
    ]
    for file, path in places or [(descriptor.file, ("ensemble",))]:
        # A name that is not valid is empty here, and reported at its line.
        whose = f"ensemble {descriptor.name!r}: " if descriptor.name else ""
        yield Problem(message=f"{whose}{error}", file=file, key=dotted(path))
