"""A streamed answer of the Responses wire that has the events of seed 001, too, beside the official ones."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.events import ArgumentsDelta, InvocationBegan
from ripieno.protocols.openai_responses.encoding import Encoder
from ripieno.protocols.openai_responses.writing import Open


class SeedEncoder(Encoder):
    """Adds ``response.output_tool_call.begin``, ``.delta`` and ``.end`` to calls, and ``response.done`` at the end.

    Each stands before the official event that says the same, but for the beginning: the item is added first.
    Free-form calls have no such events.
    """

    def _start_call(self, number: int, call: InvocationBegan | InvocationCanister) -> bytes:
        added = super()._start_call(number, call)
        if call.kind != "function":
            return added
        where = self._calls[number].where
        return added + self._event("response.output_tool_call.begin", **where, call_id=call.identifier, name=call.name)

    def _argue(self, event: ArgumentsDelta) -> bytes:
        opened = self._calls.get(event.index)
        if opened is None or not opened.is_function:
            return super()._argue(event)
        told = self._event("response.output_tool_call.delta", **opened.where, delta=event.text)
        return told + super()._argue(event)

    def _argued(self, opened: Open, invocation: InvocationCanister, text: str) -> bytes:
        official = super()._argued
        if invocation.kind != "function":
            return official(opened, invocation, text)
        told = self._event("response.output_tool_call.end", **opened.where, name=invocation.name, arguments=text)
        return told + official(opened, invocation, text)

    def _finish(self, status: str, members: Mapping[str, Any]) -> bytes:
        response = self._response(status, members)
        return self._about(status, response) + self._about("done", response)
