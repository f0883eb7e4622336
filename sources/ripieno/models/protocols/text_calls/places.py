"""The context of a position in a text: a code fence, inline code, a quotation, or open text.

Follows CommonMark as far as possible without looking ahead. In doubt, text counts as code: a call in it stays text.
"""

import dataclasses
import re

_LEAD = re.compile(r"[ \t>*+\-0-9.)\r]+")
_RUNS = {"`": re.compile("`+"), "~": re.compile("~+")}
_CODE = re.compile(r"[`\n]")


@dataclasses.dataclass(slots=True)
class _Fence:
    sign: str
    count: int
    column: int
    quoted: bool


class Places:
    """Follows a text in steps, and knows whether the position is in open text."""

    def __init__(self) -> None:
        #: The line so far allows a fence; the line so far is blank; the text has not begun.
        self.lead = True
        self.blank = True
        self.beginning = True
        self._quoted = False
        self._column = 0
        self._fence: _Fence | None = None
        #: An opening line with more backticks makes no fence; a fence closes only if its line has nothing else.
        self._info = False
        self._closing = False
        #: Number of backticks of the open inline code, which a paragraph ends.
        self._span = 0
        #: An unfinished run of fence characters: the character, their number, and whether the run leads its line.
        self._run = ""
        self._count = 0
        self._leads = False

    @property
    def open(self) -> bool:
        """Whether a call may be here."""
        return not (self._fence or self._span or self._quoted or self._run)

    @property
    def within(self) -> bool:
        """Whether the line continues unchanged until a stop."""
        return not (self.lead or self._run or self._closing)

    def step(self, text: str, at: int, stops: re.Pattern[str]) -> int:
        """Reads up to the next position where the context may change, or where ``stops`` matches in open text."""
        if self._run:
            return self._go_on(text, at)
        if self.lead:
            match = _LEAD.match(text, at)
            if match is not None:
                return self._led(match.group(), match.end())
        sign = text[at]
        if sign == "\n":
            return self._end_line(at)
        if sign == "`" or (sign == "~" and self.lead):
            self._run, self._count, self._leads = sign, 0, self.lead
            return self._go_on(text, at)
        if self._closing and sign in " \t\r":
            return at + 1
        self.pass_on()
        found = (_CODE if self._fence or self._span or self._quoted else stops).search(text, at + 1)
        return len(text) if found is None else found.start()

    def pass_on(self) -> None:
        """Marks the line as not empty."""
        self.lead = self.blank = self.beginning = self._closing = False

    def _led(self, lead: str, end: int) -> int:
        stripped = lead.strip(" \t\r")
        self._column += len(lead) + 3 * (lead.count("\t") if self._fence else 0)
        if stripped:
            self.blank = self.beginning = self._closing = False
            self._quoted = self._quoted or ">" in stripped
            if self._fence is not None and not (self._fence.quoted and not stripped.strip("> \t\r")):
                self.lead = False
        return end

    def _end_line(self, at: int) -> int:
        if self._closing:
            self._fence = None
        if self.blank:
            self._span = 0
        self.lead = self.blank = True
        self._info = self._closing = self._quoted = False
        self._column = 0
        return at + 1

    def _go_on(self, text: str, at: int) -> int:
        match = _RUNS[self._run].match(text, at)
        if match is not None:
            self._count += match.end() - at
            at = match.end()
        if at < len(text):
            self._apply()
        return at

    def _apply(self) -> None:
        """Applies a complete run, which may open or close code."""
        sign, count, leads, fence = self._run, self._count, self._leads, self._fence
        self._run = ""
        column, quoted = self._column, self._quoted
        self.pass_on()
        if fence is not None:
            if self._info and sign == "`":
                # Inline code, not a fence.
                self._fence, self._info = None, False
                self._span = 0 if count == fence.count else fence.count
            elif leads and sign == fence.sign and count >= fence.count and column <= fence.column + 3:
                self._closing = True
        elif leads and count >= 3 and count != self._span:
            self._fence = _Fence(sign, count, column, quoted)
            self._info = sign == "`"
            self._span = 0
        elif sign == "`" and self._span in (0, count):
            self._span = count - self._span
