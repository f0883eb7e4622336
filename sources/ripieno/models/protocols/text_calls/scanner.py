"""Parser that finds calls of all forms in a streamed text.

No text is lost: the sources of all pieces, joined, are the text. Its division into chunks makes no difference. Text is
returned as soon as it cannot be a call; a call, when its frame is complete. Each character is read at most twice: in a
frame, and again as text if the frame fails. A failed frame is not searched for calls.
"""

from collections.abc import Callable, Sequence

from ripieno.jsonvalues import EMPTY
from ripieno.models.protocols.text_calls.forms.form import Variant
from ripieno.models.protocols.text_calls.grammar import (
    Body,
    Closed,
    Piece,
    Reasoning,
    Text,
    TextCall,
    Tools,
    Verdict,
    Wrapping,
    beginning_of,
)
from ripieno.models.protocols.text_calls.openings import (
    ANYWHERE,
    AT_LINE,
    AT_TEXT,
    STOPS,
    Mark,
    Opening,
    following_at,
    mark_at,
    opening_at,
)
from ripieno.models.protocols.text_calls.places import Places
from ripieno.models.protocols.text_calls.values import Found

_FUNCTIONS = "functions."
#: Ends of wrappers that are expected at the same time.
_NESTED = 4


class Parser:
    """Parses one text. ``tools`` are the callable tools, with the schemas of their arguments.

    A form with a mark of its own is a call of any name, or only of ``declared`` tools; a form without one, only of
    known tools. A call for which ``echoed`` is true repeats a tool's output and does not count.
    """

    def __init__(
        self, tools: Tools = EMPTY, *, declared: bool = False, echoed: Callable[[str], bool] | None = None
    ) -> None:
        self._tools = tools
        self._declared = declared
        self._echoed = echoed
        #: Unread text, after the part of a frame before it; and the position in it.
        self._text = ""
        self._at = 0
        self._places = Places()
        self._pieces: list[Piece] = []
        self._texts: list[str] = []
        #: Number of characters that are text in any case; the end of the open quotation.
        self._mute = 0
        self._closer = ""
        #: Wrappers that are expected, and the current channel.
        self._ends: tuple[str, ...] = ()
        self._channel = ""
        #: The open frame: its start in the text, its earlier text, its kind, and its body.
        self._start = 0
        self._before: list[str] = []
        self._variant: Variant | None = None
        self._body: Body | None = None
        self._head = 0
        #: The form of a frame right behind the last one.
        self._following: Variant | None = None

    def feed(self, text: str) -> Sequence[Piece]:
        """The pieces that are certain now."""
        pending = self._text or self._body or self._closer or self._following
        if not pending and self._places.within and not STOPS.search(text):
            # The most frequent case: more of a line.
            self._mute -= len(text)
            return (Reasoning(text) if self._channel else Text(text),) if text else ()
        self._text += text
        self._advance(final=False)
        return self._taken()

    def finish(self) -> Sequence[Piece]:
        """The remaining pieces. An unclosed frame is text."""
        self._advance(final=True)
        return self._taken()

    def _taken(self) -> Sequence[Piece]:
        self._flush()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _flush(self) -> None:
        if self._texts:
            text = "".join(self._texts)
            self._texts.clear()
            self._pieces.append(Reasoning(text) if self._channel else Text(text))

    def _advance(self, *, final: bool) -> None:
        while True:
            if self._body is not None:
                if not self._go_on(self._body, final=final):
                    break
            elif self._at >= len(self._text) or not (
                self._quote(final=final) if self._closer else self._step(final=final)
            ):
                break
        if self._body is not None:
            self._before.append(self._text[self._start : self._at])
            self._start = 0
        self._text, self._at = self._text[self._at :], 0

    def _say(self, end: int) -> bool:
        if end > self._at:
            self._texts.append(self._text[self._at : end])
            self._mute -= end - self._at
            self._at = end
        return True

    def _step(self, *, final: bool) -> bool:
        """Reads open text or code. False if more text is needed."""
        text, at, places = self._text, self._at, self._places
        if places.open:
            found: Mark | Opening | bool = False
            if self._following is not None:
                found = following_at(text, at, self._following, self._tools)
                if isinstance(found, Opening):
                    return self._open(found)
                if found and not final:
                    return False
                self._following = None
            found = mark_at(text, at, self._ends)
            if found is False and self._mute <= 0:
                forms = AT_TEXT if places.beginning else AT_LINE if places.blank else ANYWHERE
                candidates = forms.get(text[at])
                found = bool(candidates) and opening_at(text, at, candidates or (), self._tools)
            if isinstance(found, Mark):
                return self._mark(found)
            if isinstance(found, Opening):
                return self._open(found)
            if found and not final:
                return False
        return self._say(places.step(text, at, STOPS))

    def _mark(self, mark: Mark) -> bool:
        self._places.pass_on()
        end = self._at + mark.length
        if mark.closer:
            self._closer = mark.closer
            return self._say(end)
        self._wrap(self._text[self._at : end])
        self._channel = ""
        self._mute -= mark.length
        self._at = end
        return True

    def _wrap(self, raw: str) -> None:
        self._flush()
        self._pieces.append(Wrapping(raw))

    def _quote(self, *, final: bool) -> bool:
        """Reads a quotation. False if more text is needed."""
        found = self._text.find(self._closer, self._at)
        if found >= 0:
            end = found + len(self._closer)
            self._closer = ""
            return self._say(end)
        self._say(len(self._text) if final else beginning_of(self._text, self._at, (self._closer,)))
        return False

    def _open(self, opening: Opening) -> bool:
        self._start, self._head = self._at, opening.body
        self._variant, self._body = opening.variant, opening.variant.body()
        self._at += opening.body
        return True

    def _go_on(self, body: Body, *, final: bool) -> bool:
        """Reads a frame. False if more text is needed."""
        self._at, verdict = body.feed(self._text, self._at, final=final)
        if verdict is Verdict.ENDED:
            self._join()
            self._end(self._at)
        elif verdict is Verdict.TORN and isinstance(body, Closed):
            self._join()
            closed = self._closed_in_string(body)
            if closed is not None:
                # The rest of the line was part of the string.
                rest = self._at - closed
                self._end(closed)
                self._mute = max(self._mute, rest)
            elif final:
                self._fail()
        elif verdict is Verdict.NONE or final:
            self._at = len(self._text) if final and verdict is Verdict.OPEN else self._at
            self._join()
            self._fail()
        else:
            return False
        return True

    def _join(self) -> None:
        """Restores the frame's earlier text, so that the frame is complete in the text."""
        if self._before:
            before = "".join(self._before)
            self._before.clear()
            self._text = before + self._text[self._start :]
            self._at += len(before) - self._start
            self._start = 0

    def _closed_in_string(self, body: Closed) -> int | None:
        """The end of the first closer in the torn string."""
        begins = self._start + self._head + body.string_at
        places = [(self._text.find(closer, begins, self._at), closer) for closer in body.closers]
        return min((place + len(closer) for place, closer in places if place >= 0), default=None)

    def _end(self, end: int) -> None:
        variant = self._variant
        raw = self._text[self._start : end]
        found = None if variant is None or variant.read is None else variant.read(raw, self._tools)
        if variant is None or (variant.read is not None and not self._counts(found, raw)):
            self._fail()
            return
        self._at = end
        self._variant = self._body = None
        self._following = variant.following or self._following
        self._places.pass_on()
        if found:
            self._flush()
            for number, (name, arguments) in enumerate(found):
                self._pieces.append(TextCall(name=self._bare(name), arguments=arguments, raw="" if number else raw))
        else:
            self._wrap(raw)
        if variant.ends:
            # Wrappers may be nested. A text that opens ever new ones must not make each step slower.
            self._ends = tuple(dict.fromkeys((*variant.ends, *self._ends)))[:_NESTED]
        if variant.channel is not None:
            self._channel = variant.channel

    def _counts(self, found: Sequence[Found] | None, raw: str) -> bool:
        if not found or (self._declared and any(self._bare(name) not in self._tools for name, _ in found)):
            return False
        return self._echoed is None or not self._echoed(raw)

    def _fail(self) -> None:
        """Discards a frame: what was read of it is text, whatever it contains."""
        self._mute = self._at - self._start
        self._at = self._start
        self._variant = self._body = self._following = None

    def _bare(self, name: str) -> str:
        """The name of a tool without a namespace that some models add."""
        bare = name.removeprefix(_FUNCTIONS)
        return bare if name not in self._tools and bare in self._tools else name
