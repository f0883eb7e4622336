"""The tools that the files of a folder run, for a person who decides about trust."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.assembly.trust import Project
from ripieno.descriptors import EnsembleDescriptor


def declared(project: Project) -> list[str]:
    """A line for each server and tool: its name, and what it runs, with which rights."""
    return [line for descriptor in project.descriptors for line in _lines(descriptor)]


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
        words = [shlex.quote(one) if isinstance(one, str) else f"[{shlex.join(one.get('argv', ()))}]" for one in argv]
        variables = [f"{name}={shlex.quote(str(value))}" for name, value in settings.get("environment", {}).items()]
        return f"runs {' '.join((*variables, *words))}, {'confined' if confined else 'with all your rights'}"
    function = settings.get("function") or settings.get("factory")
    if function:
        return f"runs {function} in this program"
    return f"{origin} {settings.get('url', '')}".strip()
