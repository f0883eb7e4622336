"""Errors of origins in ensembles that have other errors, so that one run reports all of them."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.assembly.plugins import Registry
from ripieno.descriptors.ensembles import EnsembleDescriptor, read_ensemble
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.loading.layers import reader
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Source, dotted
from ripieno.ensembles import Origin
from ripieno.ensembles.opener import needed_origins
from ripieno.ensembles.origin import check_origin
from ripieno.exceptions import ConfigurationInvalidity, Problem, RipienoError
from ripieno.jsonvalues import is_list, is_table

#: Stands for a property whose schema has an error.
_ANYTHING: Mapping[str, Any] = {}


def raw_mappings(files: Iterable[str | None]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files that are TOML, with their mappings."""
    for file in dict.fromkeys(files):
        try:
            if file is not None:
                yield file, read_toml(file).mapping
        except ConfigurationInvalidity:
            continue


def check_unreadable(files: Iterable[str | None], registry: Registry) -> Iterator[Problem]:
    """Errors of the origins of ensemble files that could not be read: of the connection, and of each invoker."""
    for file, mapping in raw_mappings(files):
        if "ensemble" not in mapping:
            continue
        items: Any = mapping.get("invokers")
        if "connection" in mapping:
            yield from _check(file, {**mapping, "invokers": []}, registry)
        for index, item in enumerate(items if is_list(items) else ()):
            before, after = (dotted(("invokers", number)) for number in (0, index))
            for problem in _check_invoker(file, mapping, item, registry):
                key = problem.key or ""
                moved = problem.file == file and key.startswith(before)
                yield dataclasses.replace(problem, key=after + key.removeprefix(before)) if moved else problem


def _check_invoker(file: str, mapping: Mapping[str, Any], item: Any, registry: Registry) -> Iterator[Problem]:
    alone = {name: value for name, value in mapping.items() if name not in ("connection", "overrides")}
    if _read(file, {**alone, "invokers": [item]}) is None and is_table(item) and is_table(item.get("arguments")):
        properties: Any = item["arguments"].get("properties")
        names = dict.fromkeys(properties, _ANYTHING) if is_table(properties) else {}
        item = {**item, "arguments": {"type": "object", "properties": names}}
    yield from _check(file, {**alone, "invokers": [item]}, registry)


def _read(file: str, mapping: Mapping[str, Any]) -> EnsembleDescriptor | None:
    folder = pathlib.Path(file).parent
    # Without its text, problems get no lines: those of an invoker are looked up under its own index.
    return read_ensemble(mapping, Source(file=file), read=reader(folder, {}), folder=str(folder))[0]


def _check(file: str, mapping: Mapping[str, Any], registry: Registry) -> Iterator[Problem]:
    descriptor = _read(file, mapping)
    return iter(()) if descriptor is None else check_origins_of(descriptor, registry)


def check_origins_of(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[Problem]:
    """Errors that the origins of an ensemble report, and origins that do not exist."""
    for name in needed_origins(descriptor):
        try:
            origin: Origin = registry.resolve("origins", name)
        except RipienoError as error:
            yield _unknown(descriptor, name, error)
        else:
            yield from check_origin(origin, descriptor)


def _unknown(descriptor: EnsembleDescriptor, name: str, error: RipienoError) -> Problem:
    """The problem at the first table that names the origin."""
    connection = descriptor.connection
    places: list[tuple[str | None, Path]]
    places = [(descriptor.file, ("connection", "origin"))] if connection and connection.origin == name else []
    places += [
        (one.file, (*path, "invocable", "origin")) for one, path in descriptor.located() if one.invocable.origin == name
    ]
    file, path = places[0] if places else (descriptor.file, ("ensemble",))
    return Problem(message=f"ensemble {descriptor.name!r}: {error}", file=file, key=dotted(path))
