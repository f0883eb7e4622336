"""The presentation of a call to a person: made from the call itself and its tool's local definition.

::

    io.write_file wants to run.
    Effect: write. Asks because its effect is write.
    Description: Writes a file.
    Arguments (41 bytes, SHA-256 2f…):
    | {"content":"Hi.\\n","path":"docs/index.rst"}
    Note: This cannot be undone.

The description is that of a local definition. Of a server's tool, its claim is shown instead::

    The server 'io' claims (not verified):
    ~ Writes a file.

Lines of others have a margin, so that they cannot imitate a line of ours. All characters are visible. If the tool has a
preview, the changes are shown as a unified diff.
"""

import dataclasses
import difflib
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ripieno.approvals.visible_text import pieces, visible, wrap
from ripieno.canisters.faults import Effect
from ripieno.ensembles import ServerClaim
from ripieno.jsonvalues import canonical, thaw
from ripieno.lazy.expressions import expression
from ripieno.values import Value

#: Returns the changes that a call with these arguments would make, as text (usually a unified diff), without making
#: them; None if they are unknown.
Preview: TypeAlias = Callable[[Mapping[str, Any]], str | None]

#: Lines of both texts together of which a diff is made. Its time grows with the product of the two.
_MOST_LINES = 4_000
_END_OF_SENTENCE = expression(r"(?<=[.!?])\s|\n\s*\n")
_LINE = expression(r"[^\n]*\n|[^\n]+")


def foresee(preview: Preview | None, arguments: Mapping[str, Any]) -> str | None:
    """The text of a preview for a copy of the arguments; if it fails, a text that says so."""
    if preview is None:
        return None
    try:
        return preview(thaw(arguments))
    except Exception as error:
        return f"The changes are not known: the preview failed with {type(error).__name__}."


def show_change(path: str, before: str | None, after: str | None) -> str:
    """The unified diff of two texts; None is a missing file. Empty for no change.

    Texts of too many lines are described by their sizes and hashes.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    names = ("/dev/null" if before is None else path, "/dev/null" if after is None else path)
    if len(old) + len(new) > _MOST_LINES:
        return f"--- {names[0]}\n+++ {names[1]}\n{_digest_line('-', before)}\n{_digest_line('+', after)}\n"
    lines = list(difflib.unified_diff(old, new, *names))
    if not lines:  # An empty file is created or deleted.
        lines = [f"--- {names[0]}\n", f"+++ {names[1]}\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str | None) -> list[str]:
    """The lines of a text; only line feeds end a line, as programs count them."""
    return _LINE.findall(text or "")


def _digest_line(sign: str, text: str | None) -> str:
    data = (text or "").encode("utf-8", "surrogatepass")
    return f"{sign} {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


#: Bytes of visible text that are shown completely; of more, the first and the last ones.
SHOWN = 2048
_HEAD, _TAIL = 1024, 512
#: Lines of a text that is not abridged, and of those the first ones of a change that is.
_LINES, _FIRST = 60, 40


class Presentation(Value, kw_only=True):
    """One call as a person is shown it. ``arguments`` is canonical JSON; ``change`` is the text of a preview.

    ``notes`` are lines of the tool's local definition, such as "This cannot be undone."; ``description`` is the first
    sentence of its description there. Neither is ever a server's.
    """

    tool: str
    effect: Effect
    reason: str
    arguments: str
    change: str | None = None
    notes: tuple[str, ...] = ()
    claim: ServerClaim | None = None
    description: str = ""

    @property
    def size(self) -> int:
        """The bytes of the canonical arguments."""
        return len(self.arguments.encode())

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical arguments, in hexadecimal digits; a grant is bound to it."""
        return hashlib.sha256(self.arguments.encode()).hexdigest()

    @property
    def abridged(self) -> bool:
        """Whether ``render`` leaves something out. The whole text must be offered then."""
        claim = self.claim or ServerClaim(server="")
        return _is_long(self.arguments) or any(map(_is_tall, (self.change or "", claim.title, claim.description)))

    def render(self, width: int = 80, *, whole: bool = False) -> str:
        """Plain text in lines narrower than ``width`` cells (at least 20); ``whole`` abridges nothing.

        Of an abridged change, the first lines and the number of the others are shown; of another abridged text, its
        beginning and end, the number of missing bytes and the SHA-256.
        """
        width = max(width, 20) - 1
        lines = _plain(f"{self.tool} wants to run.", width)
        lines += _plain(f"Effect: {self.effect}. Asks because {self.reason}.", width)
        if self.description:
            lines += _plain(f"Description: {self.description}", width)
        if self.claim is not None:
            lines += _plain(f"The server {self.claim.server!r} claims (not verified):", width)
            for text in filter(None, (self.claim.title, self.claim.description)):
                lines += _several(text, "~ ", width, whole=whole)
        if self.change is not None:
            lines += _plain("It would change:" if self.change else "It would change nothing.", width)
            lines += _changes(self.change, width, whole=whole)
        # Last, directly above the answer, so that no long text can move it out of sight.
        lines += _plain(f"Arguments ({self.size} bytes, SHA-256 {self.digest}):", width)
        lines += _quoted(self.arguments, "| ", width, whole=whole)
        for note in self.notes:
            lines += _plain(f"Note: {note}", width)
        if self.abridged and not whole:
            lines += _plain("This is not all of it. View the whole before you approve.", width)
        return "\n".join(lines)

    def whole(self, width: int = 80) -> str:
        """The same text without abridgement."""
        return self.render(width, whole=True)

    def mapping(self) -> dict[str, Any]:
        """The JSON form, for other screens, which must make its texts visible themselves."""
        return {**dataclasses.asdict(self), "notes": list(self.notes), "size": self.size, "digest": self.digest}


def present(
    *,
    tool: str,
    effect: Effect,
    reason: str,
    arguments: Mapping[str, Any],
    preview: Preview | None = None,
    notes: Sequence[str] = (),
    claim: ServerClaim | None = None,
    description: str = "",
) -> Presentation:
    """The presentation of a call with exactly these arguments. Errors: ``JsonInvalidity`` if they are not JSON."""
    shown, change = canonical(arguments).decode(), foresee(preview, arguments)
    return Presentation(
        tool=tool,
        effect=effect,
        reason=reason,
        arguments=shown,
        change=change,
        notes=tuple(notes),
        claim=claim,
        description=_first_sentence(description),
    )


def _first_sentence(text: str) -> str:
    return " ".join(_END_OF_SENTENCE.split(text.strip(), maxsplit=1)[0].split())


def _plain(text: str, width: int) -> list[str]:
    """Lines of ours; continuation lines are indented, so that no part of a name can look like a line."""
    first, *rest = wrap(visible(text), width - 2)
    return [first, *(f"  {line}" for line in rest)]


def _several(text: str, margin: str, width: int, *, whole: bool) -> list[str]:
    """A text of several lines, which is abridged as one text."""
    if not text:
        return []
    if not whole and _is_tall(text):
        return _abridged(text, margin, width)
    ended = text.removesuffix("\n")
    return [line for one in ended.split("\n") for line in _quoted(one, margin, width, whole=True)]


def _changes(text: str, width: int, *, whole: bool) -> list[str]:
    """A change, line by line; if it is abridged, its first lines, unless these are too long themselves."""
    if whole or not _is_tall(text):
        return _several(text, "| ", width, whole=True)
    all_lines = text.removesuffix("\n").split("\n")
    sizes = itertools.accumulate(len(visible(line).encode()) for line in all_lines[:_FIRST])
    first = sum(size <= SHOWN for size in sizes)
    left = len(all_lines) - first
    if not first or not left:
        return _several(text, "| ", width, whole=False)
    shown = _several("\n".join(all_lines[:first]), "| ", width, whole=True)
    return [*shown, *_plain(f"... {left} more line{'s' if left > 1 else ''}: v shows all", width)]


def _quoted(text: str, margin: str, width: int, *, whole: bool) -> list[str]:
    if not whole and _is_long(text):
        return _abridged(text, margin, width)
    return [margin + line for line in wrap(visible(text), width - len(margin))]


def _is_long(text: str) -> bool:
    return len(visible(text).encode()) > SHOWN


def _is_tall(text: str) -> bool:
    return text.count("\n") > _LINES or _is_long(text)


def _abridged(text: str, margin: str, width: int) -> list[str]:
    """The beginning and the end of a text, in one paragraph, with the size of the missing part between them."""
    shown = visible(text)
    if len(shown.encode()) <= SHOWN:
        return [margin + line for line in wrap(shown, width - len(margin))]
    head, tail = _beginning(list(pieces(shown)), _HEAD), _beginning([*pieces(shown)][::-1], _TAIL)[::-1]
    data = text.encode("utf-8", "surrogatepass")
    left_out = len(shown.encode()) - len("".join(head + tail).encode())
    digest = hashlib.sha256(data).hexdigest()
    return [
        *(margin + line for line in wrap("".join(head), width - len(margin))),
        *_plain(f"... {left_out} bytes are not shown here, of {len(data)} bytes with SHA-256 {digest}", width),
        *(margin + line for line in wrap("".join(tail), width - len(margin))),
    ]


def _beginning(parts: Sequence[str], size: int) -> list[str]:
    """The first pieces that fit into some bytes."""
    taken: list[str] = []
    for part in parts:
        size -= len(part.encode())
        if size < 0:
            break
        taken.append(part)
    return taken
