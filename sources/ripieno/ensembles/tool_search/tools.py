"""The two tools that a model sees in place of the searchable ones: one finds them, the other calls one.

Their definitions do not depend on the results of a search, so that the list of tools is the same in every request. A
call of ``call_tool`` is judged, confirmed, limited and recorded as the call that it names.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ripieno.canisters import InvocationCanister
from ripieno.descriptors import Policy
from ripieno.ensembles.ensemble import Context, Definition, Ensemble, Invoker
from ripieno.ensembles.tool_search.catalogue import Catalogue
from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.jsonvalues import encode, freeze, thaw
from ripieno.schemas import Schema

#: The ensemble of both, for rules.
ENSEMBLE = "tool_search"
SEARCH = "search_tools"
CALL = "call_tool"
_DEFAULT, _MOST = 5, 20
#: Bytes of definitions in a result; further tools are only named.
_BYTES = 24 * 1024
#: Ensembles that the description names.
_LISTED = 24

_FINDS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "description": "Words that describe the task, or a tool's name"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MOST,
            "default": _DEFAULT,
            "description": "Maximum number of tools to show",
        },
    },
    "required": ["query"],
}
_CALLS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "The tool's name, as found by the search"},
        "arguments": {
            "type": "object",
            "default": {},
            "description": "The arguments of that tool, which match its schema",
        },
    },
    "required": ["name"],
}


@functools.cache
def _schemas() -> tuple[Schema, Schema]:
    """The schemas of both tools, compiled at the first use."""
    return Schema.of(_FINDS, closed=True), Schema.of(_CALLS, closed=True)


class Helpers(NamedTuple):
    """The tool that finds searchable tools, and the tool that calls one."""

    search: Invoker
    call: Invoker


def make_helpers(catalogue: Catalogue, taken: Collection[str]) -> Helpers:
    """The helpers for these tools. A name that is taken gets the ensemble's name as a prefix."""
    names = {name: f"{ENSEMBLE}_{name}" if name in taken else name for name in (SEARCH, CALL)}
    finds, calls = _schemas()

    def search(_: Context, arguments: dict[str, Any]) -> dict[str, Any]:
        return _found(catalogue, arguments["query"], arguments["limit"], names[CALL])

    made = Ensemble.of(
        ENSEMBLE,
        (
            Definition(
                name=SEARCH,
                exposed=names[SEARCH],
                description=_describe(catalogue, names[CALL]),
                schema=finds,
                invocable=search,
                policy=Policy(effect="none", idempotent=True),
            ),
            Definition(
                name=CALL,
                exposed=names[CALL],
                description=f"Call a tool that {names[SEARCH]} has found, by its name, with arguments that fit its "
                "schema. It is the same as calling that tool itself.",
                schema=calls,
                invocable=_call,
                # It has no effect of its own: the rules of the called tool apply.
                policy=Policy(effect="none"),
            ),
        ),
    )
    return Helpers(search=made.invokers[SEARCH], call=made.invokers[CALL])


def resolve_call(invocation: InvocationCanister, arguments: Mapping[str, Any], helpers: Helpers) -> InvocationCanister:
    """The call that a call of ``call_tool`` names, under the same identifier.

    Errors: ``ValidationFault`` for one that names ``call_tool``.
    """
    name = arguments["name"]
    if name == helpers.call.exposed:
        raise ValidationFault(
            f"{name!r} does not call itself.", suggestion="Name the tool to call, with its arguments."
        )
    return dataclasses.replace(
        invocation, name=name, arguments=freeze(arguments.get("arguments", {})), kind="function", raw=None
    )


def _found(catalogue: Catalogue, query: str, limit: int, call: str) -> dict[str, Any]:
    found = catalogue.search(query, limit)
    if not found:
        return {"tools": [], "note": f"None of the {len(catalogue.invokers)} tools matches. Try other words."}
    shown: list[dict[str, Any]] = []
    left = _BYTES
    for invoker in found:
        schema = thaw(invoker.arguments_schema)
        one = {"name": invoker.exposed, "description": invoker.description, "arguments": schema}
        left -= len(encode(one))
        if shown and left < 0:
            break
        shown.append(one)
    note = f"Call one of them with {call}(name, arguments)."
    rest = [invoker.exposed for invoker in found[len(shown) :]]
    if rest:
        note += f" Not shown, because the result is too long; search for them by name: {', '.join(rest)}."
    return {"tools": shown, "note": note}


def _describe(catalogue: Catalogue, call: str) -> str:
    ensembles = {one.ensemble.name: one.ensemble for one in catalogue.invokers}
    named = [f"{name} ({one.description})" if one.description else name for name, one in ensembles.items()]
    more = f", and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
    return (
        "Find tools that are not listed here, by words of their names, descriptions or arguments. Returns their names, "
        f"descriptions and argument schemas; call one with {call}. There are tools of: "
        f"{', '.join(named[:_LISTED])}{more}."
    )


def _call(_: Context, arguments: dict[str, Any]) -> str:
    """Reached only without the pipeline, which runs the named call instead."""
    raise ResourceFault(f"{arguments['name']!r} cannot be called here, without the pipeline.", code="no_pipeline")
