"""The events of an answer, with the calls that its text has in it as calls."""

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
from ripieno.models.protocols.text_calls.quoting import echoes_of
from ripieno.models.protocols.text_calls.scanner import Parser


def tools_of(offer: Offer) -> Tools:
    """The schemas of the arguments, by the names that a model sees."""
    return {one.exposed: one.arguments_schema for one in offer.invokers if one.hosted != "provider"}


def interpret(request: Request, identifiers: Identifiers) -> "Interpreter | None":
    """For a server that leaves calls in the text (capability ``text_calls``); None where there are none to look for.

    Only tools that the request declares are called.
    """
    controls = request.controls
    if not request.capabilities.get("text_calls") or controls.tool_choice == "none" or controls.allowed_tools == ():
        return None
    tools = tools_of(request.offer)
    return Interpreter(tools, identifiers, request.canisters, declared=True) if tools else None


class Interpreter:
    """Turns one answer's texts into texts and calls.

    Blank text beside calls is left out: some servers refuse to hear it again. Once a native call has come, texts stay
    texts. ``alert`` gives what is to be said when the turn begins, if anything is.
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
        #: Characters of the content under way that were heard; whether it had a call; and what is said since.
        self._heard = 0
        self._called = False
        self._said: list[str] = []
        self._blank = ""
        #: Calls so far, and the index that a native one has here.
        self._count = 0
        self._native: dict[int, int] = {}
        self._found = False

    def _fresh(self) -> Parser:
        return Parser(self._tools, declared=self._declared, echoed=self._echoed)

    def hear(self, events: Iterable[Event]) -> Sequence[Event]:
        """The events that these become."""
        heard: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._heard += len(event.text)
                self._take(event.text, heard)
            elif isinstance(event, ContentSealed) and isinstance(event.content, TextualContent):
                self._seal(event, event.content, heard)
            elif isinstance(event, InvocationBegan | ArgumentsDelta | InvocationSealed):
                heard.append(dataclasses.replace(event, index=self._index(event.index)))
            elif isinstance(event, TurnEnded) and self._found and event.finish == "stop":
                heard.append(dataclasses.replace(event, finish="invocations"))
            else:
                heard.append(event)
                if isinstance(event, TurnBegan) and self._alert is not None and (alert := self._alert()):
                    heard.append(alert)
        return heard

    def _index(self, native: int) -> int:
        index = self._native.get(native)
        if index is None:
            index = self._native[native] = self._count
            self._count += 1
        return index

    def _take(self, text: str, heard: list[Event]) -> None:
        if self._native:
            self._pieces(self._parser.finish(), heard)
            self._say(text, heard)
        else:
            self._pieces(self._parser.feed(text), heard)

    def _seal(self, event: ContentSealed, content: TextualContent, heard: list[Event]) -> None:
        """A content ends: what of it no delta has told is heard now."""
        self._take(content.text[self._heard :], heard)
        self._pieces(self._parser.finish(), heard)
        if self._blank and not self._called:
            heard.append(TextDelta(self._blank))
        if self._said or not self._called:
            text = "".join(self._said) if self._called else content.text
            heard.append(event if text == content.text else ContentSealed(dataclasses.replace(content, text=text)))
        self._said.clear()
        self._blank = ""
        self._heard = 0
        self._called = False
        self._parser = self._fresh()

    def _pieces(self, pieces: Iterable[Piece], heard: list[Event]) -> None:
        for piece in pieces:
            if isinstance(piece, Text):
                self._say(piece.text, heard)
            elif isinstance(piece, Reasoning):
                heard.append(ReasoningDelta(piece.text))
                self._called = True
            elif isinstance(piece, TextCall):
                self._call(piece, heard)
            else:
                self._called = True

    def _say(self, text: str, heard: list[Event]) -> None:
        if not self._said:
            text, self._blank = self._blank + text, ""
            if text.isspace():
                self._blank, text = text, ""
        if not text:
            return
        self._said.append(text)
        heard.append(TextDelta(text))

    def _call(self, call: TextCall, heard: list[Event]) -> None:
        if self._said:
            heard.append(ContentSealed(TextualContent(text="".join(self._said))))
        self._said.clear()
        self._blank = ""
        self._called = self._found = True
        index = self._count
        self._count += 1
        invocation = read_invocation(
            identifier=self._identifiers.settle(None), name=call.name, sent=call.arguments, keep_text=False
        )
        heard += (
            InvocationBegan(index=index, identifier=invocation.identifier, name=invocation.name),
            ArgumentsDelta(index=index, text=call.arguments),
            InvocationSealed(index=index, invocation=invocation),
        )
