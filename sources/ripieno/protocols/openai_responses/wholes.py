"""Our events as a whole answer of the Responses wire."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters.events import Event, TurnEnded
from ripieno.processors import Asked
from ripieno.protocols.openai_responses.encoding import Encoder
from ripieno.protocols.openai_responses.writing import Open


def encode(events: Iterable[Event], asked: Asked) -> bytes:
    """A whole answer: what a stream of the same events would have said at its end."""
    whole = _Whole(asked)
    for event in events:
        whole.feed(event)
    if not whole.body:
        whole.feed(TurnEnded(finish="stop"))
    return whole.body


class _Whole(Encoder):
    """Gathers the items of a response, and writes nothing before the end."""

    #: The response, once it has ended.
    body = b""

    def _start(self) -> bytes:
        self._began = True
        return b""

    def _event(self, kind: str, **members: Any) -> bytes:  # noqa: ARG002
        return b""

    def _delta(self, opened: Open, text: str) -> bytes:  # noqa: ARG002
        return b""

    def _end(self, event: TurnEnded) -> bytes:
        super()._end(event)
        return b""

    def _finish(self, status: str, members: Mapping[str, Any]) -> bytes:
        self.body = self._response(status, members)
        return b""
