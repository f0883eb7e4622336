"""Decodes answers of the chat completions wire, streamed or complete, into events."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, TextualContent
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
from ripieno.descriptors.names import spelled
from ripieno.exceptions import ProviderRefusal, WireInvalidity
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.common.calls import cut_off, opaque_of
from ripieno.models.protocols.common.decoder import AnswerDecoder
from ripieno.models.protocols.openai_chat.call_slots import Slot, Slots
from ripieno.models.protocols.openai_chat.finish import FINISHES, usage_of
from ripieno.models.protocols.openai_chat.invocations import NAME, function_in
from ripieno.models.protocols.openai_chat.reasoning import ORDINARY, additions_in, joined, opaque, probabilities
from ripieno.models.transport.sse import DONE

_logger = logging.getLogger(__name__)


class Decoder(AnswerDecoder):
    """Assembles the first choice. ``finish`` ends the answer, since usage may come after the reason."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        super().__init__(provider, identifiers)
        self._slots = Slots()
        #: The last call, if its arguments are a text with deltas.
        self._current: Slot | None = None
        self._next = 0
        self._text: list[str] = []
        #: The pieces of each addition.
        self._additions: dict[str, list[Any]] = {}
        #: The probabilities of tokens, by chunk.
        self._probabilities: list[Mapping[str, Any]] = []
        self._usage = NO_USAGE
        self._refused = False
        self._began = False
        self._done = False

    def feed(self, native: Native) -> Iterable[Event]:
        events = self._continue(native)
        return super().feed(native) if events is None else events

    def _continue(self, native: Native) -> Iterable[Event] | None:
        """The fast path for most events: more of an open text, or of the last call's arguments. None for others."""
        try:
            (choice,) = native["choices"]
            ((kind, value),) = choice["delta"].items()
            if choice.get("finish_reason") or choice.get("index") or native.get("usage") or native.get("error"):
                return None
            if choice.get("logprobs"):
                return None
            if kind == "tool_calls":
                return self._continue_call(*value)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # Another or an invalid shape: ``_read`` decides.
        if kind != "content" or not self._text or type(value) is not str or not value:
            return None
        self._text.append(value)
        return (TextDelta(value),) if self.deltas else ()

    def _continue_call(self, fragment: Mapping[str, Any]) -> Iterable[Event] | None:
        slot, function = self._current, fragment["function"]
        text = function["arguments"]
        if slot is None or slot.number != fragment["index"] or len(fragment) != 2 or len(function) != 1:
            return None
        if type(text) is not str or not text or (not slot.texts and text.strip() == "{}"):
            return None  # It may precede the real arguments.
        slot.texts.append(text)
        return (ArgumentsDelta(index=slot.index, text=text),) if self.deltas else ()

    def play(self, native: Native) -> Iterable[Event]:
        if not native.get("choices"):
            raise self.refused(native, "It sent no choice.")
        return super().play(native)

    def _read(self, native: Native) -> list[Event]:
        events = self._events = []
        if native is DONE:
            self._done = True
            return events
        if native.get("error"):
            raise self.refused(native)
        if not self._began:
            self._began = True
            events.append(TurnBegan(model=str(native.get("model") or "")))
        for choice in native.get("choices") or ():
            if choice.get("index") in (0, None):
                self._choose(choice)
        usage = native.get("usage")
        if usage:
            self._usage = usage_of(usage)
        return events

    def _choose(self, choice: Mapping[str, Any]) -> None:
        if probable := choice.get("logprobs"):
            self._probabilities.append(probable)
        delta = choice.get("delta")
        if delta:
            self._delta(delta)
        elif message := choice.get("message"):
            # A complete answer, which some servers send instead of a stream.
            self._done = True
            self._delta(_numbered(message))
        reason = choice.get("finish_reason")
        if reason:
            self._reason = reason

    def _delta(self, delta: Mapping[str, Any]) -> None:
        for name, value in () if delta.keys() <= ORDINARY else additions_in(delta):
            self._additions.setdefault(name, []).append(value)
            if isinstance(value, str) and not (name == "reasoning" and "reasoning_content" in self._additions):
                self._events.append(ReasoningDelta(value))
        text = delta.get("content")
        if text:
            self._say(text if isinstance(text, str) else "".join(part.get("text") or "" for part in text))
        refusal = delta.get("refusal")
        if refusal:
            self._refused = True
            self._say(refusal)
        for fragment in delta.get("tool_calls") or ():
            self._call(fragment)

    def _say(self, text: str) -> None:
        if not self._text:
            # Calls that are complete before a text begins are sealed before it.
            self._seal_calls(len(self._slots.all))
        self._text.append(text)
        if self.deltas:
            self._events.append(TextDelta(text))

    def _call(self, fragment: Mapping[str, Any]) -> None:
        self._current = None
        found = self._slots.feed(fragment)
        if found is None:
            return
        slot, new = found
        if slot.sealed:
            raise WireInvalidity(self._provider, f"It continued a call ({slot.name!r}) that was complete.")
        if new:
            self._seal_contents()
            self._seal_calls(slot.index)
        if slot.name is None:
            _log_waiting(slot, fragment)
            return  # Arguments wait for the name.
        if slot.unique is None:
            _log_replayed(slot, fragment)
            slot.unique = self._identifiers.unique(slot.identifier)
            self._events.append(
                InvocationBegan(
                    index=slot.index,
                    identifier=slot.unique,
                    name=slot.name,
                    kind=slot.kind,
                    opaque=opaque_of(slot.extras, NAME),
                )
            )
        if slot.table is None and not slot.provisional:
            self._current = slot if self._slots.continues(slot) else None
            if self.deltas:
                self._events += [ArgumentsDelta(index=slot.index, text=text) for text in slot.unshown]
            slot.unshown.clear()

    def _seal_contents(self) -> None:
        if self._additions:
            data = {name: joined(pieces) for name, pieces in self._additions.items()}
            self._additions.clear()
            self._events.append(ContentSealed(opaque(data)))
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            self._events.append(ContentSealed(TextualContent(text=text)))
        if self._probabilities:
            self._events.append(ContentSealed(probabilities(self._probabilities)))
            self._probabilities.clear()

    def _seal_calls(self, before: int) -> None:
        """Seals, in order, complete calls before another block begins; interleaved calls are not complete yet."""
        for slot in self._slots.all[self._next : before]:
            if slot.unique is None or slot.provisional or not slot.closed:
                return
            invocation = slot.read()
            if invocation.fault is not None:
                return
            self._seal(slot, invocation)

    def _seal(self, slot: Slot, invocation: InvocationCanister) -> None:
        slot.sealed = True
        self._next = slot.index + 1
        if slot is self._current:
            self._current = None
        self._events.append(InvocationSealed(index=slot.index, invocation=invocation))

    def _end(self, _: Native) -> list[Event]:
        events = self._events = []
        reason, slots = self._reason, self._slots.all
        if reason is None and not self._done:
            raise WireInvalidity(self._provider, "The answer ended without its terminal event.", retryable=True)
        if reason == "error":
            raise ProviderRefusal(self._provider, "It broke off its answer without a reason.")
        finish = self._finish_of(reason or "stop", FINISHES, calls=len(slots))
        why = self._why_cut(finish)
        # Contents after the beginning of the last call come after it.
        for slot in slots[self._next :]:
            slot.unique = slot.unique or self._identifiers.unique(slot.identifier)
            invocation = slot.read()
            if why is not None and (invocation.fault is not None or not slot.closed):
                invocation = cut_off(invocation, why)
            self._seal(slot, invocation)
        self._seal_contents()
        if finish == "stop" and slots:
            # Local servers, and a forced choice, end with this reason despite calls.
            finish = "invocations"
        if finish == "invocations" and not slots:
            raise WireInvalidity(
                self._provider,
                f"It ended with {reason!r} but sent no call.",
                hint="If its calls get lost in streams, set stream_calls = false in its capabilities.",
            )
        if self._refused and finish == "stop":
            finish = "filter"
        events.append(TurnEnded(finish=finish, usage=self._usage, reason=reason))
        return events


def _numbered(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A complete message as one delta, with calls numbered by position, whatever the server's indices are."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**call, "index": number} for number, call in enumerate(calls)]}


def _log_waiting(slot: Slot, fragment: Mapping[str, Any]) -> None:
    if _logger.isEnabledFor(logging.DEBUG) and (size := _size(fragment)):
        fields = {"index": slot.index, "bytes": size}
        _logger.debug("Arguments wait for the name of their call (index %d, %d bytes).", *fields.values(), extra=fields)


def _log_replayed(slot: Slot, fragment: Mapping[str, Any]) -> None:
    if _logger.isEnabledFor(logging.DEBUG) and len(slot.unshown) > bool(_size(fragment)):
        size = sum(len(text.encode("utf-8", "replace")) for text in slot.unshown) - _size(fragment)
        fields = {"tool": spelled(slot.name or ""), "bytes": size}
        _logger.debug("Arguments that waited for the name %s are sent on (%d bytes).", *fields.values(), extra=fields)


def _size(fragment: Mapping[str, Any]) -> int:
    """Bytes of the arguments in a fragment, if they are text."""
    function, freeform = function_in(fragment)
    sent = function.get("input" if freeform else "arguments")
    return len(sent.encode("utf-8", "replace")) if isinstance(sent, str) else 0
