"""Extracts calls from the text of an answer's events."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ripieno.canisters import Canister, TextualContent
from ripieno.canisters.events import (
    Alert,
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
from ripieno.ensembles.offers import Offer
from ripieno.models.protocol import Identifiers, Request
from ripieno.models.protocols.common.calls import read_invocation
from ripieno.models.protocols.text_calls.grammar import Piece, Reasoning, Text, TextCall, Tools
from ripieno.models.protocols.text_calls.openings import echoes_of
from ripieno.models.protocols.text_calls.scanner import Parser


def tools_of(offer: Offer) -> Tools:
    """The schemas of the arguments, by the tools' exposed names."""
    return {one.exposed: one.arguments_schema for one in offer.invokers if one.hosted != "provider"}


def interpret(request: Request, identifiers: Identifiers) -> "Interpreter | None":
    """The interpreter for a server that leaves calls in the text (capability ``text_calls``).

    None if no calls are possible. Only calls of declared tools count.
    """
    controls = request.controls
    if not request.capabilities.get("text_calls") or controls.tool_choice == "none" or controls.allowed_tools == ():
        return None
    tools = tools_of(request.offer)
    return Interpreter(tools, identifiers, request.canisters, declared=True) if tools else None


class Interpreter:
    """Turns the texts of one answer into texts and calls.

    Blank text beside calls is dropped, since some servers refuse it in a history. After a native call, texts stay
    texts. ``alert`` gives the alert for the beginning of the turn, if any.
    """

    def __init__(
        self,
        tools: Tools,
        identifiers: Identifiers,
        canisters: Sequence[Canister] = (),
        *,
        declared: bool = False,
        alert: Callable[[], Alert | None] | None = None,
    ) -> None:
        self._tools = tools
        self._declared = declared
        self._identifiers = identifiers
        self._echoed = echoes_of(canisters)
        self._alert = alert
        self._parser = self._fresh()
        #: Characters of the current content received so far; whether it had a call; and its text since then.
        self._heard = 0
        self._called = False
        self._texts: list[str] = []
        self._blank = ""
        #: Number of calls, and the new index of each native call.
        self._count = 0
        self._native: dict[int, int] = {}
        self._found = False

    def _fresh(self) -> Parser:
        return Parser(self._tools, declared=self._declared, echoed=self._echoed)

    def hear(self, events: Iterable[Event]) -> Sequence[Event]:
        resulting: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._heard += len(event.text)
                self._take(event.text, resulting)
            elif isinstance(event, ContentSealed) and isinstance(event.content, TextualContent):
                self._seal(event, event.content, resulting)
            elif isinstance(event, InvocationBegan | ArgumentsDelta | InvocationSealed):
                resulting.append(dataclasses.replace(event, index=self._index(event.index)))
            elif isinstance(event, TurnEnded) and self._found and event.finish == "stop":
                resulting.append(dataclasses.replace(event, finish="invocations"))
            else:
                resulting.append(event)
                if isinstance(event, TurnBegan) and self._alert is not None and (alert := self._alert()):
                    resulting.append(alert)
        return resulting

    def _index(self, native: int) -> int:
        index = self._native.get(native)
        if index is None:
            index = self._native[native] = self._count
            self._count += 1
        return index

    def _take(self, text: str, resulting: list[Event]) -> None:
        if self._native:
            self._pieces(self._parser.finish(), resulting)
            self._say(text, resulting)
        else:
            self._pieces(self._parser.feed(text), resulting)

    def _seal(self, event: ContentSealed, content: TextualContent, resulting: list[Event]) -> None:
        """Ends a content, after its text without deltas."""
        self._take(content.text[self._heard :], resulting)
        self._pieces(self._parser.finish(), resulting)
        if self._blank and not self._called:
            resulting.append(TextDelta(self._blank))
        if self._texts or not self._called:
            text = "".join(self._texts) if self._called else content.text
            resulting.append(event if text == content.text else ContentSealed(dataclasses.replace(content, text=text)))
        self._texts.clear()
        self._blank = ""
        self._heard = 0
        self._called = False
        self._parser = self._fresh()

    def _pieces(self, pieces: Iterable[Piece], resulting: list[Event]) -> None:
        for piece in pieces:
            if isinstance(piece, Text):
                self._say(piece.text, resulting)
            elif isinstance(piece, Reasoning):
                resulting.append(ReasoningDelta(piece.text))
                self._called = True
            elif isinstance(piece, TextCall):
                self._call(piece, resulting)
            else:
                self._called = True

    def _say(self, text: str, resulting: list[Event]) -> None:
        if not self._texts:
            text, self._blank = self._blank + text, ""
            if text.isspace():
                self._blank, text = text, ""
        if text:
            self._texts.append(text)
            resulting.append(TextDelta(text))

    def _call(self, call: TextCall, resulting: list[Event]) -> None:
        if self._texts:
            resulting.append(ContentSealed(TextualContent(text="".join(self._texts))))
        self._texts.clear()
        self._blank = ""
        self._called = self._found = True
        index = self._count
        self._count += 1
        invocation = read_invocation(
            identifier=self._identifiers.unique(None), name=call.name, sent=call.arguments, keep_text=False
        )
        resulting += (
            InvocationBegan(index=index, identifier=invocation.identifier, name=invocation.name),
            ArgumentsDelta(index=index, text=call.arguments),
            InvocationSealed(index=index, invocation=invocation),
        )
