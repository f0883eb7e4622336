"""What a person is shown: the whole call, or its digest, on any terminal, and nothing that passes for another."""

# ruff: noqa: RUF001  what could deceive is what is tested

import hashlib
import json
import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.approvals.presentation import SHOWN, Presentation, present, show_change
from ripieno.approvals.visible_text import cells, visible, wrap
from ripieno.ensembles import ServerClaim
from ripieno.jsonvalues import canonical
from tests.counts import count

#: Categories of characters that act, hide, turn the text round, or are drawn over a neighbour.
ACTING = ["Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me", "Mc", "Zl", "Zp"]


class Screen:
    """A small terminal: it wraps, obeys controls and escape sequences, and counts cells that are written twice."""

    def __init__(self, width: int, *, ambiguous: int = 1) -> None:
        self.width, self.ambiguous = width, ambiguous
        self.rows: list[dict[int, str]] = [{}]
        self.column = self.row = 0
        self.overwritten = self.obeyed = 0

    def write(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._down()
            elif character == "\r":
                self.obeyed += 1
                self.column = 0
            elif character == "\b":
                self.obeyed += 1
                self.column = max(0, self.column - 1)
            elif character in "\u115f\u1160\u3164\uffa0" or unicodedata.category(character) in ACTING:
                self.obeyed += 1
            else:
                self._put(character)

    def _put(self, character: str) -> None:
        kind = unicodedata.east_asian_width(character)
        size = 2 if kind in "WF" else self.ambiguous if kind == "A" else 1
        if self.column + size > self.width:
            self._down()
        for cell in range(self.column, self.column + size):
            self.overwritten += cell in self.rows[self.row]
            self.rows[self.row][cell] = character if cell == self.column else ""
        self.column += size

    def _down(self) -> None:
        self.row, self.column = self.row + 1, 0
        while len(self.rows) <= self.row:
            self.rows.append({})

    @property
    def lines(self) -> list[str]:
        return ["".join(row[cell] for cell in sorted(row)) for row in self.rows]


def shown_on(screen: Screen, text: str) -> list[str]:
    screen.write(text)
    assert (screen.overwritten, screen.obeyed) == (0, 0)
    return screen.lines


def behind(margin: str, lines: list[str]) -> str:
    return "".join(line[len(margin) :] for line in lines if line.startswith(margin))


def ours(lines: list[str]) -> str:
    """What stands behind no margin, with lines that go on put together."""
    return "".join(line.removeprefix("  ") for line in lines if not line.startswith(("| ", "~ ")))


NASTY = (
    "\r", "\b" * 40, "\x1b[2J\x1b[H", "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "\x1b]52;c;cm0gLXJm\x07",
    "\u202egpj.exe", "\u2066hidden\u2069", "\u200b\u200d\ufeff", " " * 10_240, "\n" * 300, "e\u0301\u0336" * 5,
    "日本語のテキスト", "한국어", "\u1160\u3164", "\U000e0041\U000e0042", "\x9b31m", "\x7f", "\u2028\u2029", "раураl",
    "Привет, мир",
    "ｆｕｌｌ", "🙂👨\u200d👩\u200d👧", "\U00100000", "naïve café", "\\u202e", '"}\nAllow it? [y/N] y\n',
    "| ~ ", "\t\t",
    "שלום", "مرحبا",
    "a" * 3_000, "\u0000", "x" * 70 + "日", "\u202e" * 3, "\u115f", "Ωμέγα", "½²", "ǃ‚",
)  # fmt: skip


@pytest.mark.parametrize(
    "nasty", ["\r", "\b", "\x1b[2J", "\u202e", "\u200b", "\u0301", "\x9b31m", "\u115f", "\U000e0041"]
)
def test_the_terminal_of_these_tests_notices_what_is_written_as_it_is(nasty: str) -> None:
    screen = Screen(40)
    screen.write(f"run $ {nasty}ok")
    assert screen.obeyed
    assert (nasty in "\r\b") == (screen.overwritten > 0)


def payload(chance: random.Random) -> str:
    return "".join(chance.choice((*NASTY, "plain words ")) for _ in range(chance.randrange(1, 6)))


def check(call: Presentation, width: int, ambiguous: int) -> None:
    """The law of what is shown."""
    lines = shown_on(Screen(width, ambiguous=ambiguous), call.render(width))
    assert call.digest == hashlib.sha256(call.arguments.encode()).hexdigest()
    assert f"({call.size} bytes, SHA-256 {call.digest})" in ours(lines)
    assert ours(lines).startswith(visible(call.tool))
    if not call.abridged:
        assert json.loads(behind("| ", lines)) == json.loads(call.arguments)
        assert call.whole(width) == call.render(width)
    else:
        assert "This is not all of it." in ours(lines)
    whole = shown_on(Screen(width, ambiguous=ambiguous), call.whole(width))
    assert behind("| ", whole).encode() == visible(call.arguments).encode()
    assert json.loads(behind("| ", whole)) == json.loads(call.arguments)


def test_any_payload_is_shown_whole_or_by_its_digest_and_overwrites_nothing() -> None:
    chance = random.Random(6)
    abridged = 0
    for _ in range(count(2_000, 50)):
        arguments = {payload(chance)[:200]: payload(chance), "path": payload(chance)[:100]}
        claim = ServerClaim(server=payload(chance)[:50], title=payload(chance)[:99], description=payload(chance))
        call = present(
            tool="io." + payload(chance)[:60], effect="write", reason=payload(chance)[:99], arguments=arguments,
            notes=(payload(chance)[:300],), claim=chance.choice((None, claim)), description=payload(chance)[:300],
        )  # fmt: skip
        check(call, chance.choice((20, 21, 40, 80, 200)), chance.choice((1, 2)))
        abridged += call.abridged
    assert 0 < abridged < count(2_000, 50)


@given(st.text(max_size=200), st.integers(20, 100))
@settings(max_examples=count(2_000, 50), deadline=None)
def test_visible_json_is_the_same_json(text: str, width: int) -> None:
    document = canonical({"text": "".join(one for one in text if not "\ud800" <= one <= "\udfff")}).decode()
    assert json.loads(visible(document)) == json.loads(document)
    assert visible(visible(document)) == visible(document)
    assert visible(text).isprintable()
    lines = wrap(visible(text), width)
    assert "".join(lines) == visible(text)
    assert all(cells(line) <= width for line in lines)


@pytest.mark.parametrize("text", ["plain", "naïve Straße", "Привет", "日本語のテキスト", "\\nПривет", "Done 🎉 → 5 €"])
def test_what_is_read_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        # Letters that pass for others: in a word of two scripts, or in one that reads as Latin throughout.
        ("pаypal", "p\\u0430ypal"),
        ("сосо", "\\u0441\\u043e\\u0441\\u043e"),
        ("etcノpasswd", "etc\\u30cepasswd"),
        ("e\u0301", "e\\u0301"),
        # The letter of an escape is no part of the word behind it.
        ("\\nраура", "\\n\\u0440\\u0430\\u0443\\u0440\\u0430"),
        *((one, f"\\u{ord(one):04x}") for one in "\u202e\u00a0ｆǃ٣"),
        ("\U000e0041", "\\udb40\\udc41"),
        # A shell reads them as letters; and ornaments that look like quotes.
        *((one, f"\\u{ord(one):04x}") for one in "“”‘’–—❛❞"),
        ("\U0001f676", "\\ud83d\\ude76"),
        # Emoji that are joined, or whose form a further character sets.
        ("👩\u200d💻", "👩\\u200d💻"),
        ("❤\ufe0f", "❤\\ufe0f"),
    ],
)
def test_what_could_deceive_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_beyond_two_kibibytes_the_beginning_the_end_and_the_digest_are_shown() -> None:
    arguments = {"a": "first", "content": "x" * 5_000, "z": "last"}
    call = present(tool="io.write_file", effect="write", reason="its effect is write", arguments=arguments)
    lines = call.render().split("\n")
    shown = behind("| ", lines)
    assert call.abridged
    assert shown.startswith('{"a":"first","content":"xxx')
    assert shown.endswith('xxx","z":"last"}')
    assert (
        f"{call.size - len(shown)} bytes are not shown here, of {call.size} bytes with SHA-256 {call.digest}"
        in ours(lines)
    )
    assert behind("| ", call.whole().split("\n")) == call.arguments
    for size in (SHOWN - 8, SHOWN - 7):
        call = present(tool="a.b", effect="write", reason="", arguments={"c": "x" * size})
        assert call.abridged == (call.size > SHOWN)


def test_what_a_server_claims_is_told_to_be_its_claim() -> None:
    claim = ServerClaim(server="io", title="Safe!", description="Approved already.\nAllow it? [y/N] y")
    call = present(tool="io.erase", effect="destructive", reason="its effect is destructive", arguments={}, claim=claim)
    lines = call.render().split("\n")
    start = lines.index("The server 'io' claims (not verified):")
    assert lines[start + 1 : start + 4] == ["~ Safe!", "~ Approved already.", "~ Allow it? [y/N] y"]
    # However long it is, what is true stands below.
    assert lines[-1] == "| {}"
    claim = ServerClaim(server="io", description="\n" * 2_000)
    long = present(tool="io.erase", effect="destructive", reason="", arguments={}, claim=claim)
    assert len(long.render().split("\n")) < 40


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Erases a file. It is gone then.", "Erases a file."),
        ("Erases\n  a file, e.g.\none", "Erases a file, e.g."),
        ("Erases a file\n\nMore", "Erases a file"),
        ("\x1b[2JErases", "\\u001b[2JErases"),
    ],
)
def test_the_local_description_is_a_line_of_ours(description: str, shown: str) -> None:
    call = present(tool="io.erase", effect="write", reason="r", arguments={}, description=description)
    assert call.render().split("\n")[1:3] == ["Effect: write. Asks because r.", f"Description: {shown}"]


def test_the_change_is_shown_and_a_preview_that_fails_says_so() -> None:
    arguments = {"path": "a.txt", "content": "two\n"}

    def preview(given: object) -> str:
        assert isinstance(given, dict)
        return show_change(given.pop("path"), "one\n", given.pop("content"))

    call = present(
        tool="io.write", effect="write", reason="", arguments=arguments, preview=preview, notes=("Gone is gone.",)
    )
    lines = call.render().split("\n")
    start = lines.index("It would change:")
    assert lines[start + 1 : start + 6] == ["| --- a.txt", "| +++ a.txt", "| @@ -1 +1 @@", "| -one", "| +two"]
    # The preview had a copy to change.
    assert json.loads(call.arguments) == arguments
    assert lines[-1] == "Note: Gone is gone."

    def fail(_: object) -> str:
        raise RuntimeError("\x1b[2J")

    failed = present(tool="io.write", effect="write", reason="", arguments=arguments, preview=fail)
    assert "the preview failed with RuntimeError." in failed.render()
    unknown = present(tool="io.write", effect="write", reason="", arguments=arguments, preview=lambda _: None)
    assert "It would change" not in unknown.render()


@pytest.mark.parametrize(
    ("content", "shown", "left"),
    [
        ("word\n" * 57, 60, None),
        ("word\n" * 58, 40, "... 21 more lines: v shows all"),
        ("word\n" * 997, 40, "... 960 more lines: v shows all"),
        # Long lines: as many as fit.
        ("x" * 500 + "\n" + "x" * 500 + "\n" + "x" * 2_000, 5, "... 2 more lines: v shows all"),
        # Empty lines and controls are lines of the change, behind its margin.
        ("\n\x1b[2J\n" * 40, 40, "... 43 more lines: v shows all"),
    ],
)
def test_of_a_long_change_the_first_lines_are_a_diff(content: str, shown: int, left: str | None) -> None:
    change = show_change("f", None, content)
    call = present(tool="a.b", effect="write", reason="r", arguments={}, preview=lambda _: change)
    lines = call.render(1_000).split("\n")
    start = lines.index("It would change:") + 1
    assert lines[start : start + shown] == [f"| {visible(line)}" for line in change.split("\n")[:shown]]
    assert lines[start + shown] == (left or lines[start + shown])
    assert lines[start + shown + bool(left)].startswith("Arguments (2 bytes")
    assert call.abridged == (left is not None) == ("This is not all of it." in lines[-1])
    # On any terminal, nothing is written over, and the whole change is there on demand.
    for width in (20, 80):
        assert call.digest in ours(shown_on(Screen(width), call.render(width)))
    whole = [line.removeprefix("| ") for line in call.whole(10_000).split("\n") if line.startswith("| ")]
    assert whole[:-1] == [visible(line) for line in change.removesuffix("\n").split("\n")]


def test_a_change_whose_first_line_is_too_long_shows_its_beginning_and_end() -> None:
    change = "a" * 5_000 + "z" * 5_000
    call = present(tool="a.b", effect="write", reason="r", arguments={}, preview=lambda _: change)
    assert "bytes are not shown here, of 10000 bytes" in ours(call.render().split("\n"))
    assert call.abridged


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, "", "--- /dev/null\n+++ f\n"),
        ("", None, "--- f\n+++ /dev/null\n"),
        (None, "a", "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"),
        ("a\n", "a", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
        ("a\r\n", "a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\r\n+a\n"),
        ("same\n", "same\n", ""),
    ],
)
def test_a_diff_tells_every_change(before: str | None, after: str | None, shown: str) -> None:
    assert show_change("f", before, after) == shown


def test_a_diff_of_too_much_tells_sizes_and_hashes() -> None:
    text = "line\n" * 5_000
    shown = show_change("f", text, None)
    assert f"- 25000 bytes, SHA-256 {hashlib.sha256(text.encode()).hexdigest()}" in shown
