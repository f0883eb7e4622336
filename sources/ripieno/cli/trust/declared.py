"""The tools that the files of a folder run, for a person who decides about trust."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.plugins import Registry
from ripieno.assembly.programs import find_origins
from ripieno.assembly.protection import named_variables
from ripieno.assembly.trust import Project
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles.origin import needed_variables
from ripieno.jsonvalues import EMPTY, thaw


def declared(project: Project, registry: Registry) -> list[str]:
    """A line for each server and tool: its name, what it runs, with which rights, and the variables that it gets.

    Then the ensembles that the project enables, and its providers.
    """
    lines = (line for descriptor in project.descriptors for line in _lines(descriptor, registry))
    return [*lines, *_enabled(project), *_providers(project)]


def _enabled(project: Project) -> Iterator[str]:
    """A line for each ensemble that the configuration enables and does not define."""
    table: Mapping[str, Any] = EMPTY if project.part is None else project.part.parts.get("ensembles", EMPTY)
    chosen = {key: thaw(table[key]) for key in ("enabled", "profile", "include") if key in table}
    if not chosen:
        return
    named = (*chosen.get("enabled", ()), *chosen.get("include", ()))
    # Also selects the user's own ensembles; only a profile enables more than the file names.
    found = {one.name: one for one in load_configuration({"ensembles": chosen}).ensembles}
    own = {one.name for one in project.descriptors}
    profiled = (name for name, one in found.items() if "profile" in chosen and one.layer == "package")
    for name in dict.fromkeys((*profiled, *named)):
        if name in own:
            continue
        if name in found:
            tools = ", ".join(one.name for one in found[name].invokers if one.enabled)
            origin = "bundled" if found[name].layer == "package" else "yours"
            yield f"{name}: enabled, {origin}{f', with {tools}' if tools else ''}"
        else:
            yield f"{name}: enabled, not declared here"


def _providers(project: Project) -> Iterator[str]:
    """A line for each provider with an address or a variable; of a known one, neither is used."""
    table: Mapping[str, Any] = EMPTY if project.part is None else project.part.parts.get("providers", EMPTY)
    for name, keys in table.items():
        place, given = keys.get("base_url") or keys.get("cloud"), _given(named_variables(keys))
        if place or given:
            yield f"provider {name}: {place or 'no address'}{given}"


def _lines(descriptor: EnsembleDescriptor, registry: Registry) -> Iterator[str]:
    needed = _needed(descriptor, registry)
    connection = descriptor.connection
    if connection is not None:
        variables = {*needed[None], *named_variables((connection.settings, descriptor.configuration))}
        ran = _run(connection.origin, connection.settings, confined=False)
        yield f"{descriptor.name}: {ran}{_given(variables)}"
    elif needed[None]:
        yield f"{descriptor.name}: all its tools{_given(needed[None])}"
    for invoker in descriptor.invokers:
        settings = invoker.invocable.settings
        variables = {*needed[invoker.name], *named_variables((settings, invoker.configuration))}
        if invoker.invocable.origin == "python" and "function" not in settings:
            settings = settings.set("function", f"{descriptor.module}:{invoker.name}")
        ran = _run(invoker.invocable.origin, settings, confined=settings.get("confined", not descriptor.own))
        yield f"{descriptor.name}.{invoker.name}: {ran}{_given(variables)}"


def _needed(descriptor: EnsembleDescriptor, registry: Registry) -> Mapping[str | None, set[str]]:
    """The variables that the origins name, by tool, also of tools that are not enabled; None has the connection's.

    An origin may name them in a way of its own. It names none if it cannot be loaded, or if settings are invalid: what
    the settings name as ``{env:NAME}`` counts besides.
    """
    found: dict[str | None, set[str]] = defaultdict(set)
    places = [
        one for one in (descriptor.connection, *(one.invocable for one in descriptor.invokers)) if one is not None
    ]
    for origin in find_origins(dict.fromkeys(one.origin for one in places), registry):
        for need in needed_variables(origin, descriptor):
            found[None if need.invoker is None else need.invoker.name].add(need.name)
    return found


def _given(variables: Iterable[str]) -> str:
    """The variables whose values a tool or a server gets, or sends elsewhere."""
    names = sorted(variables)
    return f", with your variable{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _run(origin: str, settings: Mapping[str, Any], *, confined: bool) -> str:
    network = ", with the network" if settings.get("network") else ""
    argv = settings.get("argv") or settings.get("command")
    if argv:
        words = map(_word, argv)
        variables = [f"{name}={shlex.quote(str(value))}" for name, value in settings.get("environment", {}).items()]
        rights = f"confined{network}" if confined else "with all your rights"
        return f"runs {' '.join((*variables, *words))}, {rights}"
    function = settings.get("function") or settings.get("factory")
    if function:
        return f"runs {function} in this program"
    return f"{origin} {settings.get('url', '')}".strip() + network


def _word(element: Any) -> str:
    """An element of a command: what may be left out is in brackets, and a list has dots."""
    if isinstance(element, str):
        return shlex.quote(element)
    return f"[{{{element['each']}}} ...]" if "each" in element else f"[{shlex.join(element.get('argv', ()))}]"
