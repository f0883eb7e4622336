"""Decodes answers of the Messages wire, streamed or complete, into events."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, TextualContent
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.exceptions import WireInvalidity
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.anthropic.contents import NAME, opaque
from ripieno.models.protocols.anthropic.finish import FINISHES, usage_of
from ripieno.models.protocols.anthropic.invocations import extras_in, invocation_of
from ripieno.models.protocols.common.calls import cut_off, opaque_of, read_arguments
from ripieno.models.protocols.common.decoder import AnswerDecoder


class Block:
    """A block while it is streamed."""

    __slots__ = ("call", "fragments", "grown", "identifier", "invocation", "kind", "start", "stopped")

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.start = dict(start)
        self.kind = start.get("type")
        #: Pieces of its text, or of its arguments.
        self.fragments: list[str] = []
        #: Pieces of other members, by their names.
        self.grown: dict[str, list[str]] = {}
        self.stopped = False
        # Of a call: its index among the calls, from 0, its identifier, and the call after the block stopped.
        self.call = -1
        self.identifier = ""
        self.invocation: InvocationCanister | None = None

    def read(self) -> InvocationCanister:
        sent = "".join(self.fragments) or self.start.get("input")
        return invocation_of({**self.start, "input": sent}, self.identifier)

    def complete(self) -> Mapping[str, Any]:
        """The block as in a complete answer."""
        for name, pieces in self.grown.items():
            self.start[name] = (self.start.get(name) or "") + "".join(pieces)
        if self.fragments:
            self.start["input"], _ = read_arguments("".join(self.fragments))
        return self.start

    def doubtful(self) -> bool:
        """Whether a stopped call may have been cut off, which only the stop reason shows."""
        invocation = self.invocation
        return invocation is not None and (invocation.fault is not None or not invocation.arguments)


class Decoder(AnswerDecoder):
    """Assembles blocks by their index, and seals them in the model's order."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        super().__init__(provider, identifiers)
        #: Blocks in progress, by the server's index.
        self._open: dict[object, Block] = {}
        self._last: Block | None = None
        #: Unsealed blocks, in the model's order.
        self._pending: deque[Block] = deque()
        self._calls = 0
        self._usage: dict[str, Any] = {}
        self._ended = False

    def play(self, native: Native) -> Iterable[Event]:
        if native.get("type") != "message":
            raise self.refused(native, "It sent no message.")
        return super().play(native)

    def _read(self, native: Native) -> list[Event]:
        events = self._events = []
        kind = native.get("type")
        if kind == "content_block_delta":
            self._delta(self._block(native), native["delta"])
        elif kind == "content_block_start":
            self._start(native.get("index"), native["content_block"])
        elif kind == "content_block_stop":
            self._stop(native)
        elif kind == "message_delta":
            self._reason = native["delta"].get("stop_reason") or self._reason
            self._count(native)
        elif kind == "message_start":
            self._begin(native["message"])
        elif kind == "message_stop":
            self._ended = True
        elif kind == "error" or native.get("error"):
            raise self.refused(native)
        elif kind == "message":
            self._read_message(native)
        return events

    def _begin(self, message: Mapping[str, Any]) -> None:
        self._count(message)
        self._events.append(TurnBegan(model=str(message.get("model") or "")))

    def _count(self, native: Native) -> None:
        """Updates usage: each count is cumulative and replaces the last one."""
        usage = native.get("usage") or EMPTY
        self._usage.update({name: value for name, value in usage.items() if value is not None})

    def _read_message(self, message: Mapping[str, Any]) -> None:
        self._begin(message)
        for place, start in enumerate(message.get("content") or ()):
            self._start(place, start)
            self._stop({"index": place})
        self._reason = message.get("stop_reason")
        self._ended = True

    def _block(self, native: Native) -> Block:
        """The open block of an event; without an index, the block that began last."""
        index = native.get("index")
        block = self._last if index is None else self._open.get(index)
        if block is None or block.stopped:
            raise KeyError(f"no block {index} is open")
        return block

    def _start(self, index: object, start: Mapping[str, Any]) -> None:
        former = self._open.get(index)
        if former is not None:
            # Its index is reused, so it is complete.
            self._close(former)
        block = self._last = self._open[index] = Block(start)
        self._pending.append(block)
        self._seal()
        if block.kind == "tool_use":
            block.identifier = self._identifiers.unique(start.get("id"))
            block.call, self._calls = self._calls, self._calls + 1
            self._events.append(
                InvocationBegan(
                    index=block.call,
                    identifier=block.identifier,
                    name=str(start.get("name") or ""),
                    opaque=opaque_of(extras_in(start), NAME),
                )
            )
        elif block.kind == "text" and start.get("text"):
            block.fragments.append(start["text"])
            if self.deltas:
                self._events.append(TextDelta(start["text"]))
        elif block.kind == "thinking" and start.get("thinking"):
            self._events.append(ReasoningDelta(start["thinking"]))

    def _delta(self, block: Block, delta: Mapping[str, Any]) -> None:
        kind = delta["type"]
        if kind == "text_delta":
            text = delta["text"]
            block.fragments.append(text)
            if self.deltas:
                self._events.append(TextDelta(text))
        elif kind == "input_json_delta":
            text = delta["partial_json"]
            if text:
                block.fragments.append(text)
                if self.deltas and block.kind == "tool_use":
                    self._events.append(ArgumentsDelta(index=block.call, text=text))
        else:
            # Thinking, signatures and unknown deltas extend the member of their name.
            for name, value in delta.items():
                if name != "type" and isinstance(value, str):
                    block.grown.setdefault(name, []).append(value)
            if kind == "thinking_delta":
                self._events.append(ReasoningDelta(delta["thinking"]))

    def _stop(self, native: Native) -> None:
        self._close(self._block(native))
        self._open.pop(native.get("index"), None)
        self._seal()

    def _close(self, block: Block) -> None:
        block.stopped = True
        if block.kind == "tool_use":
            block.invocation = block.read()

    def _seal(self) -> None:
        pending = self._pending
        while pending and pending[0].stopped and (len(pending) > 1 or not pending[0].doubtful()):
            self._sealed(pending.popleft())

    def _sealed(self, block: Block, why: str | None = None) -> None:
        if block.kind == "text":
            if block.fragments:
                self._events.append(ContentSealed(TextualContent(text="".join(block.fragments))))
        elif block.kind == "tool_use":
            invocation = block.invocation or block.read()
            if why is not None and (block.doubtful() or not block.stopped):
                invocation = cut_off(invocation, why)
            self._events.append(InvocationSealed(index=block.call, invocation=invocation))
        elif block.stopped or why is None:
            # A cut thinking block has no signature, and would be refused.
            self._events.append(ContentSealed(opaque(block.complete())))

    def _end(self, _: Native) -> list[Event]:
        events = self._events = []
        reason = self._reason
        if reason is None:
            word = "a stop reason" if self._ended else "its terminal event"
            raise WireInvalidity(self._provider, f"The answer ended without {word}.", retryable=True)
        finish = self._finish_of(reason, FINISHES, calls=self._calls)
        why = self._why_cut(finish)
        while self._pending:
            self._sealed(self._pending.popleft(), why)
        if reason == "tool_use" and not self._calls:
            raise WireInvalidity(self._provider, f"It ended with {reason!r} but sent no call.")
        events.append(TurnEnded(finish=finish, usage=usage_of(self._usage), reason=reason))
        return events
