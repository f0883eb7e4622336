"""Where a place in a text stands: in a code fence, in inline code, in a quotation, or in the open.

After CommonMark, as far as it can be told without looking ahead. What is in doubt counts as code: a call in it stays
text.
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
    """Follows a text, character by character in steps of its own, and knows whether it stands in the open."""

    def __init__(self) -> None:
        #: Only what may stand before a fence so far in this line; only blanks; nothing at all of the text.
        self.lead = True
        self.blank = True
        self.beginning = True
        self._quoted = False
        self._column = 0
        self._fence: _Fence | None = None
        #: A fence of backticks is none when its own line has more of them; one closes when nothing follows in its line.
        self._info = False
        self._closing = False
        #: How many backticks opened the inline code that this is, and paragraphs end it.
        self._span = 0
        #: A run of fence signs that may go on: the sign, how many, and whether it leads its line.
        self._run = ""
        self._count = 0
        self._leads = False

    @property
    def open(self) -> bool:
        """Whether a call may stand here."""
        return not (self._fence or self._span or self._quoted or self._run)

    @property
    def within(self) -> bool:
        """Whether the line goes on as it is, as long as nothing comes that stops."""
        return not (self.lead or self._run or self._closing)

    def step(self, text: str, at: int, stops: re.Pattern[str]) -> int:
        """Reads on, to the next place where something may change, or where one of ``stops`` matches in the open."""
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
        """Something stands in this line."""
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
            self._settle()
        return at

    def _settle(self) -> None:
        """A run has ended: what it opens or closes."""
        sign, count, leads, fence = self._run, self._count, self._leads, self._fence
        self._run = ""
        column, quoted = self._column, self._quoted
        self.pass_on()
        if fence is not None:
            if self._info and sign == "`":
                # No fence, but inline code.
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
