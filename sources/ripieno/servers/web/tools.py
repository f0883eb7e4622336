"""The tools that models are offered, and for each ensemble that is missing, the reason."""

from collections.abc import Iterator
from typing import Any

from ripieno.assembly import Assembly
from ripieno.assembly.availability import absence, disabled, is_available, reason_of
from ripieno.canisters.display import clean
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Ensemble
from ripieno.jsonvalues import thaw


def describe_tools(assembly: Assembly) -> dict[str, Any]:
    """The ensembles of an entered assembly, those that are offered first, and the problems of its files."""
    return {"ensembles": list(_ensembles(assembly)), "problems": list(_problems(assembly))}


def _ensembles(assembly: Assembly) -> Iterator[dict[str, Any]]:
    loaded = assembly.loaded
    shown, off = set[str](), disabled(loaded)
    for ensemble in assembly.ensembles:
        shown.add(ensemble.name)
        yield _connected(ensemble)
    for one in assembly.absences:
        if one.file is None and one.name not in shown and one.name not in off:
            shown.add(one.name)
            yield _ensemble(one.name, "missing", one.reason[:1].upper() + one.reason[1:])
    for name in sorted(set(loaded.known) - shown):
        state = "available" if is_available(loaded, name) else "disabled"
        yield _ensemble(name, state, absence(loaded, name), loaded.known[name])
    for left in loaded.left_out:
        if left.layer == "project" and not left.name.startswith("["):
            yield _ensemble(left.name, "left out", f"Not loaded: {reason_of(loaded, left)}.")


def _connected(ensemble: Ensemble) -> dict[str, Any]:
    tools = [
        _tool(one.name, one.description, one.policy.effect, thaw(one.arguments_schema))
        for one in ensemble.invokers.values()
    ]
    tools += [{**_tool(name, "", "unknown"), "reason": f"{clean(why)}."} for name, why in ensemble.left_out.items()]
    lost = "" if ensemble.state == "connected" else f"The connection is {ensemble.state}."
    return {**_ensemble(ensemble.name, "missing" if lost else "enabled", lost), "tools": tools}


def _ensemble(name: str, state: str, reason: str, descriptor: EnsembleDescriptor | None = None) -> dict[str, Any]:
    connection = None if descriptor is None else descriptor.connection
    invokers = () if descriptor is None else descriptor.invokers
    return {
        "name": clean(name),
        "origin": "" if connection is None else connection.origin,
        "state": state,
        "reason": clean(reason),
        "tools": [_tool(one.name, one.description, one.policy.effect) for one in invokers if one.enabled],
    }


def _tool(name: str, description: str, effect: str, arguments: Any = None) -> dict[str, Any]:
    return {"name": clean(name), "description": clean(description), "effect": effect, "arguments": arguments}


def _problems(assembly: Assembly) -> Iterator[dict[str, Any]]:
    for one in assembly.loaded.warnings:
        yield {"file": one.file, "line": one.line, "message": clean(one.message), "hint": clean(one.hint or "")}
    for left in assembly.loaded.left_out:
        if left.layer != "project" or left.name.startswith("["):
            yield {
                "file": left.file,
                "line": None,
                "message": clean(f"{left.name}: {reason_of(assembly.loaded, left)}"),
                "hint": "",
            }
