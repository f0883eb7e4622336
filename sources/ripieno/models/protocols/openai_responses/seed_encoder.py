"""Encodes answers with the events, the indices and the status of seeds 001 and 004 beside the official events."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, OpaqueContent
from ripieno.canisters.events import ArgumentsDelta, Event, InvocationBegan, ResultReady, TextDelta, TurnEnded
from ripieno.models.protocol import Asked
from ripieno.models.protocols.openai_responses.encoder import CompleteEncoder, Encoder, complete
from ripieno.models.protocols.openai_responses.items import MESSAGE
from ripieno.models.protocols.openai_responses.writer import ARGUMENTS, Open


class SeedEncoder(Encoder):
    """Adds ``response.output_tool_call.begin``, ``.delta`` and ``.end`` to calls, and ``response.done`` at the end.

    Each comes before its official counterpart, except that an item is added first. Free-form calls have none. Events
    about an item have its ``item_id``. Calls have indices from 1: a message precedes a call that would be the first
    item; it has what the model says in this turn, or nothing. A message ends after the calls that follow it, and before
    their results: what the model says later is another message, so that the output is in the order of the conversation.
    A response that leaves calls of its tools to the client has the status ``requires_action``, whether or not other
    calls ran here, and a result with an error has ``is_error`` (seed 004).
    """

    _waits = False
    #: Whether the text of the open message is complete.
    _whole = False

    def _opaque(self, content: OpaqueContent) -> bytes:
        closed = self._close_whole() if content.kind == MESSAGE else b""
        return closed + super()._opaque(content)

    def _say(self, event: TextDelta) -> bytes:
        return self._close_whole() + super()._say(event)

    def _seal_text(self, text: str) -> bytes:
        return self._close_whole() + super()._seal_text(text)

    def _end_text(self) -> bytes:
        self._whole = self._message is not None
        return b""

    def _close_whole(self) -> bytes:
        return self._close_message() if self._whole else b""

    def _close_message(self, status: str = "completed") -> bytes:
        # Nothing of an empty message was cut off.
        complete = self._whole or self._message is None or not self._message.texts
        self._whole = False
        return super()._close_message("completed" if complete else status)

    def _result(self, event: ResultReady) -> bytes:
        return (b"" if event.discarded else self._close_message()) + super()._result(event)

    def _item_of(self, event: ResultReady) -> dict[str, Any]:
        item = super()._item_of(event)
        return item if event.result.error is None else {**item, "is_error": True}

    def _event(self, kind: str, **members: Any) -> bytes:
        if kind in ("response.output_item.added", "response.output_item.done"):
            members = {"item_id": members["item"]["id"], **members}
        return super()._event(kind, **members)

    def _end(self, event: TurnEnded) -> bytes:
        self._waits = event.finish == "open"
        return super()._end(event)

    def _status(self, status: str) -> str:
        return "requires_action" if self._waits else status

    def _start_call(self, number: int, call: InvocationBegan | InvocationCanister) -> bytes:
        added = self._send_reasoning()
        added += b"" if self._output else self._open_message()[1]
        added += super()._start_call(number, call)
        if call.kind != "function":
            return added
        where = self._calls[number].where
        return added + self._event("response.output_tool_call.begin", **where, call_id=call.identifier, name=call.name)

    def _argue(self, event: ArgumentsDelta) -> bytes:
        opened = self._calls.get(event.index)
        if opened is None or opened.beginning is not ARGUMENTS["function"]:
            return super()._argue(event)
        delta = self._event("response.output_tool_call.delta", **opened.where, delta=event.text)
        return delta + super()._argue(event)

    def _end_arguments(self, opened: Open, invocation: InvocationCanister, text: str) -> bytes:
        end = b""
        if invocation.kind == "function":
            end = self._event("response.output_tool_call.end", **opened.where, name=invocation.name, arguments=text)
        return end + super()._end_arguments(opened, invocation, text)

    def _finish(self, status: str, members: Mapping[str, Any]) -> bytes:
        response = self._response(self._status(status), members)
        return self._about(status, response) + self._about("done", response)


def encode_seed(events: Iterable[Event], asked: Asked) -> bytes:
    """A complete answer with the indices and the status of ``SeedEncoder``."""
    return complete(events, _CompleteSeedEncoder(asked))


class _CompleteSeedEncoder(CompleteEncoder, SeedEncoder):
    pass
