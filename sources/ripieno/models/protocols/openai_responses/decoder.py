"""Decodes answers of the Responses wire, streamed or complete, into events."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ripieno.canisters import TextualContent
from ripieno.canisters.conversation import NO_USAGE
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
from ripieno.jsonvalues import EMPTY, is_table
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.common.calls import cut_off, opaque_of
from ripieno.models.protocols.common.decoder import AnswerDecoder
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.finish import FINISHES, finish_of, usage_of
from ripieno.models.protocols.openai_responses.items import CALLS, MESSAGE, beside_of, extras_in, opaque_of_item
from ripieno.models.protocols.openai_responses.partial_items import Item, Items, matched

_REASONING = "reasoning"
_BROKEN = ("failed", "cancelled")
#: Statuses of an answer that has not ended.
_UNFINISHED = ("queued", "in_progress")


class Decoder(AnswerDecoder):
    """Assembles items by index and identifier, and seals them in the model's order. Unknown events are ignored."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        super().__init__(provider, identifiers)
        self._items = Items()
        #: The target of the last delta, and the members by which the next one is recognized as its continuation.
        self._current: tuple[object, object, object, object, list[str], int] | None = None
        #: Unsealed items, in the model's order.
        self._pending: deque[Item] = deque()
        self._calls = 0
        self._usage = NO_USAGE
        self._refused = False
        self._incomplete = False
        #: Whether reasoning has begun, and whether the current reasoning was streamed.
        self._reasoned = False
        self._reasoning_sent = False
        self._began = False

    def feed(self, native: Native) -> Iterable[Event]:
        current = self._current
        if current is not None:
            # The fast path for most events: more of the same text or arguments.
            word, identifier, index, part, texts, call = current
            text, get = native.get("delta"), native.get
            if (
                get("type") == word
                and get("item_id") == identifier
                and get("output_index") == index
                and get("content_index") == part
                and type(text) is str
                and text
            ):
                texts.append(text)
                if not self.deltas:
                    return ()
                return (TextDelta(text),) if call < 0 else (ArgumentsDelta(index=call, text=text),)
            self._current = None
        return super().feed(native)

    def _goes_on(self, native: Native, texts: list[str], call: int) -> None:
        get = native.get
        self._current = (get("type"), get("item_id"), get("output_index"), get("content_index"), texts, call)

    def play(self, native: Native) -> Iterable[Event]:
        if native.get("object") != "response":
            raise self.refused(native, "It sent no response.")
        return super().play(native)

    def _read(self, native: Native) -> list[Event]:
        events = self._events = []
        kind = native.get("type")
        read = self._READERS.get(kind)
        if read is not None:
            if not self._began:
                self._begin(native)
            read(self, native)
        elif native.get("object") == "response":
            # A complete answer, which some servers send instead of a stream.
            self._begin({"response": native})
            self._close({"response": native})
        elif kind == "error" or native.get("error"):
            raise self.refused(native)
        return events

    def _begin(self, native: Native) -> None:
        if not self._began:
            self._began = True
            self._events.append(TurnBegan(model=str((native.get("response") or EMPTY).get("model") or "")))

    # Items.

    def _open(self, kind: str, index: object, identifier: object) -> Item:
        item = self._items.open(kind, index, identifier)
        self._pending.append(item)
        if kind in CALLS:
            item.call, self._calls = self._calls, self._calls + 1
        item.reasoned = self._reasoned
        self._reasoned = self._reasoned or kind == _REASONING
        return item

    def _item(self, native: Native, kind: str) -> Item | None:
        """The item of an event; None if it is complete, since nothing can change it then."""
        index, identifier = native.get("output_index"), native.get("item_id")
        item = self._items.find(kind, index, identifier)
        if item is None and not self._items.was(kind, index, identifier):
            # A piece before its item's beginning opens the item.
            item = self._open(kind, index, identifier)
        return item

    def _add(self, native: Native) -> None:
        start, index = native["item"], native.get("output_index")
        if self._items.repeats(start, index):
            return
        kind, identifier = str(start["type"]), start.get("id")
        item = self._items.waiting(kind, index, identifier) or self._open(kind, index, identifier)
        self._start(item, start)
        self._seal()

    def _start(self, item: Item, start: Mapping[str, Any]) -> None:
        item.started = start
        item.take(start)

    def _finish(self, native: Native) -> None:
        end, index = native["item"], native.get("output_index")
        if self._items.ended(end, index):
            return
        kind, identifier = str(end["type"]), end.get("id")
        item = self._items.find(kind, index, identifier) or self._open(kind, index, identifier)
        self._complete(item, end)
        self._seal()

    def _complete(self, item: Item, end: Mapping[str, Any]) -> None:
        """Completes an item. The complete item overrides its earlier pieces."""
        if item.started is None:
            self._start(item, end)
        item.finish(end)
        self._items.close(item)
        if item.kind == _REASONING:
            if not self._reasoning_sent:
                thoughts = end.get("summary") or end.get("content") or ()
                self._events += [ReasoningDelta(one["text"]) for one in thoughts if is_table(one) and one.get("text")]
            self._reasoning_sent = False

    # Calls.

    def _begin_calls(self) -> None:
        """Begins calls whose names are known, up to the first pending item that is not a call."""
        for item in self._pending:
            if not item.is_call:
                return
            if not item.begun and item.name:
                self._begin_call(item)

    def _begin_call(self, item: Item) -> None:
        item.begun = True
        native = item.native
        item.unique = self._identifiers.unique(native.get("call_id"))
        self._events.append(
            InvocationBegan(
                index=item.call,
                identifier=item.unique,
                name=item.name,
                kind=CALLS[item.kind],
                opaque=opaque_of(extras_in(native), NAME),
            )
        )
        if item.invocation is not None:
            item.invocation = item.read()
        self._events += [ArgumentsDelta(index=item.call, text=text) for text in item.fragments if self.deltas]

    def _argue(self, native: Native, kind: str) -> None:
        item, text = self._item(native, kind), native.get("delta")
        if item is None or not text:
            return
        if not isinstance(text, str):
            item.complete = text
            return
        item.fragments.append(text)
        if item.begun:
            self._goes_on(native, item.fragments, item.call)
            if self.deltas:
                self._events.append(ArgumentsDelta(index=item.call, text=text))

    def _complete_arguments(self, native: Native, kind: str, key: str) -> None:
        item = self._item(native, kind)
        if item is None:
            return
        item.complete = native.get(key) or item.complete
        if native.get("name") and not item.name:
            item.native["name"] = native["name"]
            self._begin_calls()

    # Messages and reasoning.

    def _say(self, native: Native) -> None:
        item, text = self._item(native, MESSAGE), native.get("delta")
        if item is None or not text:
            return
        if not item.parts:
            self._seal_members(item)
        texts = item.parts.setdefault(native.get("content_index"), [])
        texts.append(text)
        self._goes_on(native, texts, -1)
        if self.deltas:
            self._events.append(TextDelta(text))

    def _seal_members(self, item: Item) -> None:
        """Seals the members that return with a text before the text itself, if they are known by then."""
        if not item.marked and item.started is not None and self._pending and self._pending[0] is item:
            self._mark(item)

    def _mark(self, item: Item) -> None:
        beside = beside_of(item.native, reasoned=item.reasoned)
        if beside is not None:
            item.marked = True
            self._events.append(ContentSealed(beside))

    def _refuse(self, native: Native) -> None:
        self._refused = True
        self._say(native)

    def _complete_text(self, native: Native, key: str) -> None:
        item = self._item(native, MESSAGE)
        if item is not None and not item.parts.get(native.get("content_index")):
            say = self._say if key == "text" else self._refuse
            say({**native, "delta": native.get(key)})

    def _think(self, native: Native) -> None:
        text = native.get("delta")
        if text:
            self._reasoning_sent = True
            self._events.append(ReasoningDelta(text))

    def _separate_summaries(self, native: Native) -> None:
        """Makes several summaries of one reasoning paragraphs."""
        if native.get("summary_index") and self._reasoning_sent:
            self._events.append(ReasoningDelta("\n\n"))

    # Sealing, and the end.

    def _seal(self) -> None:
        pending = self._pending
        while pending and pending[0].done and (len(pending) > 1 or not pending[0].doubtful()):
            self._sealed(pending.popleft())
        self._begin_calls()

    def _sealed(self, item: Item, why: str | None = None) -> None:
        if item.is_call:
            self._sealed_call(item, why)
        elif item.kind == MESSAGE:
            self._sealed_text(item)
        elif item.done and (why is None or item.unfinished is None):
            # As it began, the item may be incomplete, and would be refused.
            kept = opaque_of_item(item.native)
            if kept is not None:
                self._events.append(ContentSealed(kept))

    def _sealed_call(self, item: Item, why: str | None) -> None:
        if not item.begun:
            self._begin_call(item)
        invocation = item.invocation or item.read()
        unfinished = item.unfinished
        if unfinished is not None:
            invocation = cut_off(invocation, why or f"its item is {unfinished!r}")
        elif why is not None and (item.doubtful() or not item.done):
            invocation = cut_off(invocation, why)
        self._events.append(InvocationSealed(index=item.call, invocation=invocation))

    def _sealed_text(self, item: Item) -> None:
        text, sent = item.text(), item.sent_text()
        contents = item.native.get("content")
        if not isinstance(contents, str) and any(one.get("type") == "refusal" for one in contents or ()):
            self._refused = True
        if not text:
            return
        if not item.marked:
            self._mark(item)
        if self.deltas and len(text) > len(sent) and text.startswith(sent):
            self._events.append(TextDelta(text[len(sent) :]))
        self._events.append(ContentSealed(TextualContent(text=text)))

    def _close(self, native: Native) -> None:
        response = native.get("response") or EMPTY
        status = response.get("status") or str(native.get("type") or "").rpartition(".")[2]
        if status in _BROKEN or response.get("error"):
            raise self.refused(response, f"Its answer is {status!r} without a reason.")
        if response.get("usage"):
            self._usage = usage_of(response["usage"])
        for known, end in matched(self._items.all, response.get("output") or ()):
            item = known or self._open(str(end["type"]), None, end.get("id"))
            if not item.done:
                self._complete(item, end)
        self._seal()
        if status == "incomplete":
            self._incomplete = True
            self._reason = str((response.get("incomplete_details") or EMPTY).get("reason") or status)
        elif status and status not in _UNFINISHED:
            self._reason = "completed" if status == "done" else str(status)

    def _end(self, _: Native) -> list[Event]:
        events = self._events = []
        reason = self._reason
        if reason is None:
            raise WireInvalidity(self._provider, "The answer ended without its terminal event.", retryable=True)
        finish = finish_of(reason) if self._incomplete else self._finish_of(reason, FINISHES, calls=self._calls)
        why = self._why_cut(finish)
        while self._pending:
            self._sealed(self._pending.popleft(), why)
        if finish == "stop" and self._calls:
            finish = "invocations"
        elif finish == "stop" and self._refused:
            finish = "filter"
        events.append(TurnEnded(finish=finish, usage=self._usage, reason=reason))
        return events

    #: By the types of events. The first argument is the decoder.
    _READERS: ClassVar[Mapping[object, Callable[[Any, Native], None]]] = {
        "response.output_text.delta": _say,
        "response.function_call_arguments.delta": lambda self, native: self._argue(native, "function_call"),
        "response.custom_tool_call_input.delta": lambda self, native: self._argue(native, "custom_tool_call"),
        "response.reasoning_summary_text.delta": _think,
        "response.reasoning_text.delta": _think,
        "response.reasoning_summary_part.added": _separate_summaries,
        "response.refusal.delta": _refuse,
        "response.output_text.done": lambda self, native: self._complete_text(native, "text"),
        "response.refusal.done": lambda self, native: self._complete_text(native, "refusal"),
        "response.function_call_arguments.done": lambda self, native: self._complete_arguments(
            native, "function_call", "arguments"
        ),
        "response.custom_tool_call_input.done": lambda self, native: self._complete_arguments(
            native, "custom_tool_call", "input"
        ),
        "response.output_item.added": _add,
        "response.output_item.done": _finish,
        **dict.fromkeys(("response.created", "response.in_progress", "response.queued"), _begin),
        **dict.fromkeys(("response.completed", "response.incomplete", "response.done"), _close),
        **dict.fromkeys(("response.failed", "response.cancelled"), _close),
    }
