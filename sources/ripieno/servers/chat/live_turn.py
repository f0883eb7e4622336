"""The turn under way, as far as its events have come: what a page that is reloaded shows."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.canisters import InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.contents import Content
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    ExecutionBegan,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
)
from ripieno.servers.chat.contents import content_of, message_of


@dataclasses.dataclass(slots=True)
class _Text:
    """A text or reasoning in parts, until it is sealed: by its whole content, or reasoning by an opaque one."""

    kind: str
    parts: list[str]
    sealed: bool = False
    content: Content | None = None

    def mapping(self) -> dict[str, Any]:
        whole = None if self.content is None else content_of(self.content)
        return {"type": self.kind, **(whole or {"text": "".join(self.parts)}), "sealed": self.sealed}


@dataclasses.dataclass(slots=True)
class _Call:
    """A call, from its first argument to its result."""

    identifier: str
    name: str
    index: int | None = None
    arguments: list[str] = dataclasses.field(default_factory=list[str])
    invocation: InvocationCanister | None = None
    tool: str = ""
    began: bool = False
    progress: ExecutionProgress | None = None
    result: ResultCanister | None = None

    def mapping(self) -> dict[str, Any]:
        progress, call, result = self.progress, self.invocation, self.result
        return {
            "type": "call",
            "index": self.index,
            "identifier": self.identifier,
            "name": self.name,
            "tool": self.tool,
            "arguments": "".join(self.arguments),
            "invocation": None if call is None else message_of(call),
            "began": self.began,
            "progress": None if progress is None else progress.mapping(),
            "result": None if result is None else message_of(result),
        }


class LiveTurn:
    """Folds the events of a turn. It begins anew with each ``TurnBegan``.

    ``texts`` are those of a turn that was cut off, from the journal.
    """

    def __init__(self, texts: Iterable[Mapping[str, Any]] = ()) -> None:
        self._items: list[_Text | _Call] = [
            _Text(str(one.get("type")), [str(one.get("text"))], one.get("sealed") is True) for one in texts
        ]

    def mapping(self) -> list[dict[str, Any]]:
        """Its texts and calls, in the order of their beginnings: ``{"type": "text" | "reasoning" | "call", …}``."""
        return [one.mapping() for one in self._items]

    def texts(self) -> list[dict[str, Any]]:
        """The texts of the model so far, whole: ``{"type": "text" | "reasoning", "text", "sealed"}``."""
        found = (
            (one, one.content or TextualContent(text="".join(one.parts)))
            for one in self._items
            if not isinstance(one, _Call)
        )
        return [
            {"type": one.kind, "text": content.text, "sealed": one.sealed}
            for one, content in found
            if isinstance(content, TextualContent) and content.text
        ]

    def contents(self) -> Iterator[Content]:
        """The complete contents: of the assistant, and of results."""
        for one in self._items:
            if isinstance(one, _Call):
                yield from () if one.result is None else one.result.content
            elif one.content is not None:
                yield one.content

    def take(self, event: Event) -> None:
        """Adds the next event."""
        match event:
            case TurnBegan():
                self._items.clear()
            case TextDelta():
                self._text("text").parts.append(event.text)
            case ReasoningDelta():
                self._text("reasoning").parts.append(event.text)
            case ContentSealed(content=OpaqueContent()):
                # It ends the reasoning before it, which a text may have followed.
                for one in self._items:
                    if isinstance(one, _Text) and one.kind == "reasoning":
                        one.sealed = True
            case ContentSealed():
                text = self._text("text")
                text.sealed, text.content = True, event.content
            case InvocationBegan():
                self._items.append(_Call(event.identifier, event.name, event.index))
            case ArgumentsDelta():
                for call in self._calls():
                    if call.index == event.index:
                        call.arguments.append(event.text)
            case _:
                self._take_call(event)

    def _take_call(self, event: Event) -> None:
        """Adds an event about a whole call. Calls of an earlier answer are not in this turn until they go on."""
        match event:
            case InvocationSealed():
                self._call(event.invocation, event.index).invocation = event.invocation
            case ExecutionBegan():
                call = self._call(event.invocation)
                call.began, call.tool = True, event.tool
            case ExecutionProgress():
                for call in self._calls():
                    if call.identifier == event.invocation_id:
                        call.progress = event
            case ResultReady():
                call = self._call(event.invocation)
                call.result, call.tool = event.result, event.tool
            case _:
                pass

    def _text(self, kind: str) -> _Text:
        """The text under way, or a new one."""
        last = self._items[-1] if self._items else None
        if isinstance(last, _Text) and last.kind == kind and not last.sealed:
            return last
        text = _Text(kind, [])
        self._items.append(text)
        return text

    def _call(self, invocation: InvocationCanister, index: int | None = None) -> _Call:
        for call in self._calls():
            if call.identifier == invocation.identifier or (index is not None and call.index == index):
                call.identifier, call.name = invocation.identifier, invocation.name
                return call
        call = _Call(invocation.identifier, invocation.name, index, invocation=invocation)
        self._items.append(call)
        return call

    def _calls(self) -> list[_Call]:
        return [one for one in self._items if isinstance(one, _Call)]
