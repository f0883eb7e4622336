"""The tools that the files of a folder run, for a person who decides about trust."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import Project
from ripieno.descriptors import EnsembleDescriptor
from ripieno.jsonvalues import EMPTY, thaw


def declared(project: Project) -> list[str]:
    """A line for each server and tool: its name, and what it runs, with which rights. Then the ensembles it enables."""
    return [*(line for descriptor in project.descriptors for line in _lines(descriptor)), *_enabled(project)]


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


def _lines(descriptor: EnsembleDescriptor) -> Iterator[str]:
    if descriptor.connection is not None:
        yield f"{descriptor.name}: {_run(descriptor.connection.origin, descriptor.connection.settings, confined=False)}"
    for invoker in descriptor.invokers:
        settings = invoker.invocable.settings
        if invoker.invocable.origin == "python" and "function" not in settings:
            settings = settings.set("function", f"{descriptor.module}:{invoker.name}")
        ran = _run(invoker.invocable.origin, settings, confined=settings.get("confined", not descriptor.own))
        yield f"{descriptor.name}.{invoker.name}: {ran}"


def _run(origin: str, settings: Mapping[str, Any], *, confined: bool) -> str:
    argv = settings.get("argv") or settings.get("command")
    if argv:
        words = map(_word, argv)
        variables = [f"{name}={shlex.quote(str(value))}" for name, value in settings.get("environment", {}).items()]
        return f"runs {' '.join((*variables, *words))}, {'confined' if confined else 'with all your rights'}"
    function = settings.get("function") or settings.get("factory")
    if function:
        return f"runs {function} in this program"
    return f"{origin} {settings.get('url', '')}".strip()


def _word(element: Any) -> str:
    """An element of a command: what may be left out is in brackets, and a list has dots."""
    if isinstance(element, str):
        return shlex.quote(element)
    return f"[{{{element['each']}}} ...]" if "each" in element else f"[{shlex.join(element.get('argv', ()))}]"
