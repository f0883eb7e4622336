"""Decodes answers of the generateContent wire, streamed or complete, into events."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.canisters import TextualContent
from ripieno.canisters.events import (
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
from ripieno.jsonvalues import EMPTY, thaw
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.protocols.common.calls import cut_off, opaque_of, read_arguments
from ripieno.models.protocols.common.decoder import AnswerDecoder
from ripieno.models.protocols.gemini.contents import CONTINUATION, NAME, contents_of, opaque
from ripieno.models.protocols.gemini.finish import BROKEN, FINISHES, usage_of
from ripieno.models.protocols.gemini.invocations import STREAMED, extras_in, invocation_of

#: One step of a path such as ``$.foo.bar[0]['a b']``.
_STEP = re.compile(r"""\.([^.\[\]'"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")


class PartialCall:
    """A call whose arguments are streamed. Parts after the first have no name, or repeat the identifier."""

    def __init__(self, part: Mapping[str, Any], identifier: str) -> None:
        call = part["functionCall"]
        self.identifier = identifier
        self._given = call.get("id")
        self._part = {key: value for key, value in part.items() if key != "functionCall"}
        self._call = {key: value for key, value in call.items() if key not in STREAMED}
        arguments, fault = read_arguments(call.get("args"))
        self._arguments: Any = None if fault is not None else thaw(arguments)
        self._add(call)

    def goes_on(self, call: Mapping[str, Any]) -> bool:
        return not call.get("name") or (self._given is not None and call.get("id") == self._given)

    def add(self, part: Mapping[str, Any]) -> None:
        """Adds a part. Errors: ``ValueError`` for an invalid path."""
        self._part.update({key: value for key, value in part.items() if key != "functionCall" and value is not None})
        self._add(part["functionCall"])

    def complete(self) -> Mapping[str, Any]:
        call = self._call
        return {**self._part, "functionCall": call if self._arguments is None else {**call, "args": self._arguments}}

    def _add(self, call: Mapping[str, Any]) -> None:
        for partial in call.get("partialArgs") or ():
            if self._arguments is None:
                raise ValueError("arguments are no object")
            _put(self._arguments, steps_of(partial["jsonPath"]), partial)


def steps_of(path: str) -> list[str | int]:
    """The steps of a path. Errors: ``ValueError``."""
    place = 1
    steps: list[str | int] = []
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            break
        plain, number, single, double = found.groups()
        quoted = single if single is not None else double
        if quoted is not None:
            steps.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            steps.append(plain if plain is not None else int(number))
        place = found.end()
    if not steps or path[0] != "$" or place < len(path):
        raise ValueError(f"{path!r} is not a valid path")
    return steps


def _put(target: Any, steps: list[str | int], partial: Mapping[str, Any]) -> None:
    """Puts a value at its path; a text is appended to the text there."""
    for step, following in itertools.pairwise(steps):
        target = _at(target, step, [] if isinstance(following, int) else {})
    value = next((partial[key] for key in _VALUES if partial.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # The wire has only one kind of number.
    last = steps[-1]
    if isinstance(value, str):
        value = _at(target, last, "") + value
    _at(target, last, value)
    target[last] = value


def _at(target: Any, step: str | int, otherwise: Any) -> Any:
    """The value at a step, created if absent. Errors: ``ValueError``."""
    # An array grows by one element at most.
    if isinstance(step, int) is not isinstance(target, list) or (isinstance(step, int) and step > len(target)):
        raise ValueError(f"there is no {step!r} at that place")
    if isinstance(step, str):
        return target.setdefault(step, otherwise)
    if step == len(target):
        target.append(otherwise)
    return target[step]


_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
#: The keys of an unsigned thought.
_THOUGHT = ("text", "thought")


class Decoder(AnswerDecoder):
    """Each chunk is a complete answer: texts continue over chunks, calls are complete."""

    def __init__(self, provider: str, identifiers: Identifiers) -> None:
        super().__init__(provider, identifiers)
        self._began = False
        #: Pieces of the open text or thought, never of both.
        self._text: list[str] = []
        self._thought: list[str] = []
        #: The call whose arguments are being streamed.
        self._partial: PartialCall | None = None
        self._calls = 0
        self._usage: dict[str, Any] = {}
        self._blocked = False
        self._message = ""
        self._token: object = None

    def play(self, native: Native) -> Iterable[Event]:
        if not native.get("candidates") and not native.get("promptFeedback"):
            raise self.refused(native, "It sent no candidate.")
        return super().play(native)

    def _read(self, native: Native) -> list[Event]:
        events = self._events = []
        if native.get("error"):
            raise self.refused(native)
        if not self._began:
            self._began = True
            events.append(TurnBegan(model=str(native.get("modelVersion") or "")))
        usage = native.get("usageMetadata")
        if usage:
            # Counts are cumulative.
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        feedback = native.get("promptFeedback")
        if feedback and feedback.get("blockReason"):
            self._reason, self._blocked = feedback["blockReason"], True
        for candidate in native.get("candidates") or ():
            if candidate.get("index"):
                continue  # An alternative answer, which was not requested.
            for part in (candidate.get("content") or EMPTY).get("parts") or ():
                self._part(part)
            reason = candidate.get("finishReason")
            if reason and reason != _UNSPECIFIED:
                self._reason = reason
                self._message = candidate.get("finishMessage") or ""
                self._token = candidate.get("continuationToken")
        return events

    def _part(self, part: Mapping[str, Any]) -> None:
        text = part.get("text")
        if text is not None and len(part) == 1:
            if text:
                self._seal(text=False)
                self._text.append(text)
                if self.deltas:
                    self._events.append(TextDelta(text))
        elif part.get("functionCall") is not None:
            self._call(part)
        elif part.get("thought"):
            self._think(part)
        else:
            # A signed part stands alone, and returns unchanged.
            self._seal()
            for content in contents_of(part):
                if isinstance(content, TextualContent) and self.deltas:
                    self._events.append(TextDelta(content.text))
                self._events.append(ContentSealed(content))

    def _think(self, part: Mapping[str, Any]) -> None:
        text = part.get("text")
        if text:
            self._events.append(ReasoningDelta(text))
        if len(part) == len(_THOUGHT) and text is not None:
            self._seal(thought=False)
            if text:
                self._thought.append(text)
            return
        self._seal()
        self._events.extend(ContentSealed(content) for content in contents_of(part))

    def _seal(self, *, text: bool = True, thought: bool = True) -> None:
        if text and self._text:
            self._events.append(ContentSealed(TextualContent(text="".join(self._text))))
            self._text.clear()
        if thought and self._thought:
            data = {"text": "".join(self._thought), "thought": True}
            self._events.append(ContentSealed(opaque(data, "thought")))
            self._thought.clear()

    def _call(self, part: Mapping[str, Any]) -> None:
        self._seal()
        call, partial = part["functionCall"], self._partial
        if partial is not None and partial.goes_on(call):
            partial.add(part)
        else:
            if partial is not None:
                self._close(partial, "another call began")
            if not call.get("willContinue") and not call.get("partialArgs"):
                self._seal_call(part, self._begin(part))
                return
            partial = self._partial = PartialCall(part, self._begin(part))
        if not call.get("willContinue"):
            self._close(partial)

    def _begin(self, part: Mapping[str, Any]) -> str:
        call = part["functionCall"]
        identifier = self._identifiers.unique(call.get("id"))
        name = str(call.get("name") or "")
        beside = opaque_of(extras_in(part), NAME)
        self._events.append(InvocationBegan(index=self._calls, identifier=identifier, name=name, opaque=beside))
        return identifier

    def _seal_call(self, part: Mapping[str, Any], identifier: str, why: str | None = None) -> None:
        invocation = invocation_of(part, identifier)
        if why is not None:
            invocation = cut_off(invocation, why)
        self._events.append(InvocationSealed(index=self._calls, invocation=invocation))
        self._calls += 1

    def _close(self, partial: PartialCall, why: str | None = None) -> None:
        self._partial = None
        self._seal_call(partial.complete(), partial.identifier, why)

    def _end(self, _: Native) -> list[Event]:
        events = self._events = []
        reason = self._reason
        if reason is None:
            raise WireInvalidity(self._provider, "The answer ended without its terminal event.", retryable=True)
        if reason in BROKEN:
            message = f" ({self._message})" if self._message else ""
            raise ProviderRefusal(self._provider, f"It broke off its answer: {reason}{message}.", hint=BROKEN[reason])
        self._seal()
        if self._partial is not None:
            self._close(self._partial, f"the answer ended with {reason!r}")
        if self._token is not None:
            events.append(ContentSealed(opaque({"continuationToken": self._token}, CONTINUATION)))
        finish = "filter" if self._blocked else self._finish_of(reason, FINISHES, calls=self._calls)
        if reason == "STOP" and self._calls:
            finish = "invocations"
        events.append(TurnEnded(finish=finish, usage=usage_of(self._usage), reason=reason))
        return events
