"""Answers of the chat completions wire, chunk by chunk or whole, into our events."""

from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.contents import TextualContent
from ripieno.conversations import NO_USAGE
from ripieno.events import (
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
from ripieno.exceptions import ProviderRefusal, WireInvalidity
from ripieno.processors import Identifiers, Native, guard
from ripieno.protocols.openai_chat.endings import FINISHES, usage_of
from ripieno.protocols.openai_chat.invocations import NAME
from ripieno.protocols.openai_chat.reasoning import ORDINARY, Collected, additions_in
from ripieno.protocols.openai_chat.slots import Slot, Slots
from ripieno.protocols.reading import cut_off, read_invocation
from ripieno.protocols.refusals import message_of
from ripieno.protocols.splitting import DONE


class Decoder:
    """Assembles the one choice of an answer. The end is told by ``finish``: usage may come after the reason."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        self._provider = provider
        self._identifiers = identifiers
        self._slots = Slots()
        self._next = 0
        self._text: list[str] = []
        self._additions = Collected()
        self._usage = NO_USAGE
        self._reason: str | None = None
        self._refused = False
        self._began = False
        self._done = False
        #: What one native event has become.
        self._events: list[Event] = []

    def feed(self, native: Native) -> Iterable[Event]:
        event = self._continue(native)
        return guard(self._provider, native, self._read) if event is None else (event,)

    def _continue(self, native: Native) -> Event | None:
        """What most events are, read without detours: more of a text that has begun, or of one call's arguments."""
        try:
            (choice,) = native["choices"]
            ((kind, value),) = choice["delta"].items()
            if choice.get("finish_reason") or choice.get("index") or native.get("usage") or native.get("error"):
                return None
            if kind == "tool_calls":
                return self._continue_call(*value)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # It says something else, or nothing that can be read: no shape is refused here.
        if kind != "content" or not self._text or type(value) is not str or not value:
            return None
        self._text.append(value)
        return TextDelta(value)

    def _continue_call(self, fragment: Mapping[str, Any]) -> Event | None:
        function = fragment["function"]
        sent = function["arguments"]
        if len(fragment) != 2 or len(function) != 1 or type(sent) is not str or not sent:
            return None
        slot = self._slots.goes_on(fragment["index"])
        if slot is None or slot.settled is None or slot.sealed or not slot.take(sent):
            return None
        return ArgumentsDelta(index=slot.index, text=sent)

    def finish(self) -> Iterable[Event]:
        return guard(self._provider, DONE, self._end)

    def _read(self, native: Native) -> list[Event]:
        events = self._events = []
        if native is DONE:
            self._done = True
            return events
        if native.get("error"):
            raise ProviderRefusal(self._provider, message_of(native) or "It sent an error.", body=native)
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
        delta = choice.get("delta")
        if delta:
            self._delta(delta)
        elif message := choice.get("message"):
            # A whole answer; some servers send one where a stream was asked for.
            self._done = True
            self._delta(_numbered(message))
        reason = choice.get("finish_reason")
        if reason:
            self._reason = reason

    def _delta(self, delta: Mapping[str, Any]) -> None:
        for name, value in () if delta.keys() <= ORDINARY else additions_in(delta):
            self._additions.add(name, value)
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
            # Calls that are complete before a text begins: they are sealed, and stand before it.
            self._seal_calls(len(self._slots.all))
        self._text.append(text)
        self._events.append(TextDelta(text))

    def _call(self, fragment: Mapping[str, Any]) -> None:
        found = self._slots.feed(fragment)
        if found is None:
            return
        slot, new = found
        if slot.sealed:
            raise WireInvalidity(self._provider, f"It went on with a call ({slot.name!r}) that was complete.")
        if new:
            self._seal_contents()
            self._seal_calls(slot.index)
        if slot.name is None:
            return  # Arguments that come before the name wait for it.
        if slot.settled is None:
            slot.settled = self._identifiers.settle(slot.identifier)
            self._events.append(InvocationBegan(index=slot.index, identifier=slot.settled, name=slot.name))
        sent = slot.sent
        if isinstance(sent, list) and (slot.shown or not slot.provisional):
            for text in sent[slot.shown :]:
                self._events.append(ArgumentsDelta(index=slot.index, text=text))
            slot.shown = len(sent)

    def _seal_contents(self) -> None:
        if self._additions:
            self._events.append(ContentSealed(self._additions.content()))
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            self._events.append(ContentSealed(TextualContent(text=text)))

    def _seal_calls(self, before: int) -> None:
        """Seals, in order, what is complete before another block begins. Interleaved calls are not yet."""
        for slot in self._slots.all[self._next : before]:
            if slot.settled is None or slot.provisional or not slot.whole():
                return
            self._seal(slot)

    def _seal(self, slot: Slot, why: str | None = None) -> None:
        slot.sealed = True
        self._next = slot.index + 1
        invocation = read_invocation(
            identifier=slot.settled or self._identifiers.settle(slot.identifier),
            name=slot.name or "",
            sent=slot.arguments,
            kind="freeform" if slot.freeform else "function",
            protocol=NAME,
            extras=slot.extras,
        )
        if why is not None and (invocation.fault is not None or not slot.whole()):
            invocation = cut_off(invocation, why)
        self._events.append(InvocationSealed(index=slot.index, invocation=invocation))

    def _end(self, _: Native) -> list[Event]:
        events = self._events = []
        reason, slots = self._reason, self._slots.all
        if reason is None and not self._done:
            raise WireInvalidity(self._provider, "The answer ended without its terminal event.")
        if reason == "error":
            raise ProviderRefusal(self._provider, "It broke its answer off, and did not say why.")
        finish = FINISHES.get(reason or "stop", "stop")
        why = f"the answer ended with {reason!r}" if finish in ("length", "filter") else None
        # Whatever was said after the last call began stands after it.
        for slot in slots[self._next :]:
            self._seal(slot, why)
        self._seal_contents()
        if finish == "stop" and slots and reason in ("stop", None):
            # Local servers, and a choice that was forced, end with this word and call all the same.
            finish = "invocations"
        if finish == "invocations" and not slots:
            raise WireInvalidity(
                self._provider,
                f"It ended with {reason!r}, and sent no call.",
                hint="If its calls get lost in streams, set stream_calls = false in its capabilities.",
            )
        if self._refused and finish == "stop":
            finish = "filter"
        events.append(TurnEnded(finish=finish, usage=self._usage, reason=reason))
        return events


def decode(native: Native, provider: str, identifiers: Identifiers) -> Iterable[Event]:
    """A whole answer, played through the decoder as one chunk. Errors: as in streams."""
    if not native.get("choices"):
        raise ProviderRefusal(provider, message_of(native) or "It sent no choice.", body=native)
    decoder = Decoder(provider, identifiers)
    return [*decoder.feed(native), *decoder.finish()]


def _numbered(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A whole message as one delta: its calls are told apart by their place, whatever the server says."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**call, "index": number} for number, call in enumerate(calls)]}
