"""Tools, calls and results of the Responses wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.descriptors.tables import EMPTY, is_table
from ripieno.ensembles import Definition, Invoker
from ripieno.exceptions import InputError
from ripieno.jsonvalues import freeze, thaw
from ripieno.processors import Identifiers, InvocationsProcessor, Native
from ripieno.protocols.dialects import OPENAI_STRICT
from ripieno.protocols.openai_responses.items import CALLS, UNFINISHED, invocation_of, output_item
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.reading import cut_off
from ripieno.schemas import Schema

#: What a free-form tool takes, for whoever knows only functions.
_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


class Invocations(InvocationsProcessor):
    """Flat definitions; calls and results are items beside the messages."""

    strict_dialect = OPENAI_STRICT

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        declared = declared_by(invoker)
        if declared is not None:
            return declared
        definition: dict[str, Any] = {"type": "function", "name": invoker.exposed}
        if invoker.description:
            definition["description"] = invoker.description
        lowered = self.lowered(invoker, strict=strict)
        # Left out, ``strict`` would be what the server thinks best.
        return {**definition, "parameters": lowered.schema, "strict": lowered.strict}

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        identifiers = Identifiers()
        calls = [item for item in native.get("output") or () if item.get("type") in CALLS]
        return [_whole(item, identifiers.settle(item.get("call_id"))) for item in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        return [output_item(result) for result in results]


INVOCATIONS = Invocations()


def _whole(item: Native, identifier: str) -> InvocationCanister:
    """The call in an item of an answer, which may say that it was cut off."""
    invocation, status = invocation_of(item, identifier), item.get("status")
    return cut_off(invocation, f"its item is {status!r}") if status in UNFINISHED else invocation


def declared_by(invoker: Invoker) -> Native | None:
    """The definition of a free-form tool as a client of this wire declared it."""
    declared = invoker.configuration.get(NAME)
    return {**thaw(declared), "name": invoker.exposed} if is_table(declared) else None


def definition_from(tool: Native) -> Definition | None:
    """A tool that a client declares. Errors: ``InputError``, also for one that only a provider could run.

    None for the search of deferred tools: whoever is sent their definitions knows them all.
    """
    kind = tool.get("type", "function")
    if kind == "tool_search":
        return None
    if kind not in ("function", "custom"):
        raise InputError(
            f"A tool has the type {kind!r}, which nobody here can run: declare tools of the type function or custom."
        )
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("A tool has no name.")
    function = kind == "function"
    configuration: Mapping[str, Any] = EMPTY if function else freeze({NAME: tool})
    schema: Any = (tool.get("parameters") or {"type": "object"}) if function else _INPUT
    return Definition(
        name=name,
        exposed=name,
        description=str(tool.get("description") or ""),
        schema=Schema.of(schema),
        hosted="caller",
        configuration=configuration,
    )
