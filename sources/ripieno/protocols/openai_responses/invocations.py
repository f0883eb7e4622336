"""Tools, calls and results of the Responses wire."""

from collections.abc import Sequence
from typing import Any

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.ensembles import Invoker
from ripieno.jsonvalues import is_table, thaw
from ripieno.processors import Capabilities, Identifiers, InvocationsProcessor, Native
from ripieno.protocols.dialects import OPENAI_STRICT
from ripieno.protocols.openai_responses.items import CALLS, UNFINISHED, invocation_of, output_item
from ripieno.protocols.openai_responses.parts import NAME
from ripieno.protocols.reading import cut_off


class Invocations(InvocationsProcessor):
    """Flat definitions; calls and results are items beside the messages."""

    strict_dialect = OPENAI_STRICT

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        return declared_by(invoker) or self.function_of(invoker, strict=strict)

    def function_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        """The same as a function, also where it is free-form."""
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
    """The definition of a free-form tool as a client of this wire declared it; None for any other tool."""
    kept = invoker.configuration.get(NAME)
    if not is_table(kept) or kept.get("type") != "custom":
        return None
    return {**thaw(kept["declared"]), "name": invoker.exposed}


def knows_freeform(capabilities: Capabilities) -> bool:
    """Whether a provider knows free-form tools. OpenAI's does; elsewhere they are functions with one text."""
    return bool(capabilities.get("custom_tools", True))
