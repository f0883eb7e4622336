"""Variables that descriptors name and that nobody has set: for ``check`` and ``doctor``, which connect to nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.kinds import INVALID
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source, dotted
from ripieno.ensembles import Surroundings
from ripieno.exceptions import Problem
from ripieno.jsonvalues import is_table
from ripieno.origins.mcp.settings import Variable
from ripieno.origins.settings import advise_setting

#: Where the built-in origins take variables: tables of them, and single values.
_TABLES: tuple[Path, ...] = (("environment",), ("headers",))
_VALUES: tuple[Path, ...] = (("oauth", "client_secret"),)


def find_absent_variables(descriptors: Iterable[EnsembleDescriptor], surroundings: Surroundings) -> tuple[Problem, ...]:
    """A warning for each variable that some of the ensembles need and that is not there, with its first line."""
    places: dict[str, tuple[str | None, Path]] = {}
    users: dict[str, dict[str, None]] = {}
    for descriptor in descriptors:
        for name, file, path in _named(descriptor) if descriptor.enabled else ():
            if name not in surroundings.secrets:
                places.setdefault(name, (file, path))
                users.setdefault(name, {})[descriptor.name] = None
    return locate(
        Problem(
            message=f"the variable {name} is not set, and {' and '.join(map(repr, users[name]))} cannot do without",
            file=file,
            key=dotted(path),
            hint=advise_setting([name], surroundings),
            severity="warning",
        )
        for name, (file, path) in places.items()
    )


def absent_variables(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> list[str]:
    """The variables that an ensemble needs and that are not there."""
    return sorted({name for name, _, _ in _named(descriptor)} - surroundings.secrets.keys())


def _named(descriptor: EnsembleDescriptor) -> Iterator[tuple[str, str | None, Path]]:
    """Each variable that is named, with file and key."""
    if descriptor.connection is not None and descriptor.connection.origin == "mcp":
        yield from _in_settings(descriptor.connection.settings, descriptor.file, ("connection",))
    for index, invoker in enumerate(descriptor.invokers):
        if invoker.enabled and invoker.invocable.origin == "command":
            inline: Path = ("invokers", index) if invoker.file == descriptor.file else ()
            yield from _in_settings(invoker.invocable.settings, invoker.file, (*inline, "invocable"))


def _in_settings(settings: Mapping[str, Any], file: str | None, at: Path) -> Iterator[tuple[str, str | None, Path]]:
    values: dict[Path, Any] = {path: _at(settings, path) for path in _VALUES}
    for path in _TABLES:
        table = _at(settings, path)
        values.update({(*path, name): value for name, value in table.items()} if is_table(table) else {})
    for path, value in values.items():
        if isinstance(value, str):
            # What cannot be read is the origin's to complain about.
            template = Variable().read(value, path, Problems(Source()))
            names = () if template is INVALID else template.variables
            yield from ((name, file, (*at, *path)) for name in names)


def _at(settings: Any, path: Path) -> Any:
    for key in path:
        settings = settings.get(key) if is_table(settings) else None
    return settings
