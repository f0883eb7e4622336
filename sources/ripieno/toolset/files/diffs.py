"""Unified diffs: reading them, and applying their hunks to texts exactly or not at all. Pure text, no files.

A hunk may have moved: if its lines are not at the stated place, the only other place with all of them is used.
Different context is never accepted.
"""

import re
from collections.abc import Sequence

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk as ParsedHunk
from unidiff.patch import PatchedFile, PatchSet

from ripieno.exceptions import ValidationFault
from ripieno.toolset.arguments import several
from ripieno.values import Value

#: Files of one patch.
MAX_FILES = 200
#: Comparisons of lines at most to find a hunk elsewhere.
_COMPARISONS = 50_000_000
_NULL = "/dev/null"
_MODE = re.compile(r"100([0-7]{3})\Z")
_PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/")
_ADVICE = "Read the file again, and make the patch from its present content."


class Hunk(Value, kw_only=True):
    """Lines to replace and their replacements, with line ends; ``start`` counts from 1."""

    header: str
    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


class FilePatch(Value, kw_only=True):
    """The patch of one file. ``source`` is None for a new one, ``target`` None for a deleted one.

    ``mode`` has permission bits if the patch sets them.
    """

    source: str | None
    target: str | None
    hunks: tuple[Hunk, ...]
    mode: int | None = None

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.target or self.source or ""


def read_patch(text: str) -> list[FilePatch]:
    """The files of a patch. Errors: ``ValidationFault`` for an invalid diff, or one of binary files."""
    try:
        parsed: list[PatchedFile] = list(PatchSet(text if text.endswith("\n") else f"{text}\n"))
    except (UnidiffParseError, ValueError) as error:
        raise ValidationFault(
            f"The patch cannot be read: {' '.join(str(error).split())}",
            code="invalid_patch",
            suggestion="The counts of each @@ line must be those of its hunk; unchanged lines begin with a space.",
        ) from error
    if not parsed:
        raise ValidationFault(
            "The patch names no file.",
            code="invalid_patch",
            suggestion='Begin each file with "--- a/PATH" and "+++ b/PATH", and each hunk with "@@ -1,3 +1,4 @@".',
        )
    if len(parsed) > MAX_FILES:
        raise ValidationFault(f"The patch has {len(parsed)} files; at most {MAX_FILES} are allowed.", code="too_large")
    _check_consumed(text, {line.diff_line_no for one in parsed for hunk in one for line in hunk})
    return [_file(one) for one in parsed]


def _check_consumed(text: str, consumed: set[int | None]) -> None:
    """Refuses lines of a hunk that its header does not count: the parser skips them, and they would be lost."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if number in consumed or number - 1 not in consumed:
            continue
        if line.startswith("\\"):
            consumed.add(number)
        elif line[:1] in ("+", "-", " ") and not line.startswith("--- ") and line.rstrip() != "--":
            raise ValidationFault(
                f"Line {number} of the patch belongs to no hunk: the counts in the @@ line before it are too small.",
                code="invalid_patch",
                details={"line": number},
                suggestion="Count the hunk's lines again: @@ -START,OLD +START,NEW @@.",
            )


def _file(parsed: PatchedFile) -> FilePatch:
    source = None if parsed.source_file == _NULL else path_of(parsed.source_file)
    target = None if parsed.target_file == _NULL else path_of(parsed.target_file)
    name = target or source
    info = [line.rstrip("\n") for line in parsed.patch_info or ()]
    if not name:
        raise ValidationFault("A file of the patch has no name.", code="invalid_patch")
    if parsed.is_binary_file or parsed.is_symlink or parsed.is_submodule:
        raise ValidationFault(
            f"{name!r} is not a text file in this patch; only text files can be patched.", code="invalid_patch"
        )
    if any(line.startswith("copy from ") for line in info):
        raise ValidationFault(f"{name!r} is a copy in this patch; copy it first.", code="invalid_patch")
    if source and target and source != target and not any(line.startswith("rename from ") for line in info):
        raise ValidationFault(
            f"The patch has two names for one file: {source!r} and {target!r}.",
            code="invalid_patch",
            suggestion='Use one name; a rename needs "diff --git", "rename from" and "rename to" lines.',
        )
    match = _MODE.match(parsed.target_mode or "")
    sets = match and (source is None or parsed.source_mode != parsed.target_mode)
    hunks = tuple(_hunk(one) for one in parsed)
    return FilePatch(source=source, target=target, hunks=hunks, mode=int(match[1], 8) if match and sets else None)


def _hunk(parsed: ParsedHunk) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    last: tuple[list[str], ...] = ()
    for line in parsed:
        if line.line_type == "\\":
            for side in last:
                side[-1] = side[-1].rstrip("\n")
            continue
        last = (old, new) if line.is_context else (new,) if line.is_added else (old,)
        for side in last:
            side.append(line.value)
    header = f"@@ -{parsed.source_start},{parsed.source_length} +{parsed.target_start},{parsed.target_length} @@"
    return Hunk(header=header, start=parsed.source_start, old=tuple(old), new=tuple(new))


def apply(text: str, patch: FilePatch) -> str:
    """The text after all hunks. Errors: ``ValidationFault`` with the reason for each hunk that does not fit."""
    lines = _split(text)
    result: list[str] = []
    position = moved = 0
    problems: list[str] = []
    for number, hunk in enumerate(patch.hunks, 1):
        at = _place(lines, hunk, position, moved)
        if isinstance(at, str):
            problems.append(f"Hunk {number} ({hunk.header}): {at}")
            continue
        moved = at - _start(hunk)
        result += [*lines[position:at], *hunk.new]
        position = at + len(hunk.old)
        if hunk.old and hunk.new and hunk.old[-1] == hunk.new[-1] and lines[position - 1] != hunk.old[-1]:
            result[-1] = lines[position - 1]  # The last line stays without its end.
    if problems:
        raise ValidationFault(
            f"The patch does not fit {patch.name!r}; nothing was changed.\n" + "\n".join(problems),
            code="no_match",
            details={"hunks": problems},
            suggestion=_ADVICE,
        )
    result += lines[position:]
    # Only the last line can be without its end.
    return "".join(
        line if line.endswith("\n") or index == len(result) - 1 else f"{line}\n" for index, line in enumerate(result)
    )


def _start(hunk: Hunk) -> int:
    """The stated start of a hunk, counted from 0; a hunk without old lines begins after its line."""
    return hunk.start - 1 if hunk.old else hunk.start


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _place(lines: Sequence[str], hunk: Hunk, position: int, moved: int) -> int | str:
    """The place where a hunk fits, not before ``position``; or the reason why it does not."""
    for at in (_start(hunk) + moved, _start(hunk)):
        if position <= at <= len(lines) and _fits(lines, hunk, at):
            return at
    if not hunk.old:
        return f"there is no line {hunk.start}: the file has {several(len(lines), 'line')}."
    if len(lines) * len(hunk.old) > _COMPARISONS:
        return _difference(lines, hunk, min(max(_start(hunk) + moved, 0), len(lines)))
    found = [at for at in range(position, len(lines) - len(hunk.old) + 1) if _fits(lines, hunk, at)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(str(at + 1) for at in found[:8])
        return f"its lines are not at line {hunk.start}, but at {len(found)} other places: at {shown}."
    return _difference(lines, hunk, min(max(_start(hunk) + moved, 0), len(lines)))


def _fits(lines: Sequence[str], hunk: Hunk, at: int) -> bool:
    return (
        at >= 0
        and len(lines) >= at + len(hunk.old)
        and all(
            _same(lines[at + offset], old, last=at + offset == len(lines) - 1) for offset, old in enumerate(hunk.old)
        )
    )


def _same(line: str, old: str, *, last: bool) -> bool:
    """Whether lines are equal; a missing line end of the file's last line is ignored."""
    return line == old or (last and line.rstrip("\n") == old.rstrip("\n") and not line.endswith("\n"))


def _difference(lines: Sequence[str], hunk: Hunk, at: int) -> str:
    """The first different line."""
    for offset, old in enumerate(hunk.old):
        if at + offset >= len(lines):
            return f"the file ends before its line {at + offset + 1}, where {_shown(old)} is expected."
        if lines[at + offset] != old:
            ends = " (the line ends differ)" if lines[at + offset].rstrip("\r\n") == old.rstrip("\r\n") else ""
            return f"line {at + offset + 1} is {_shown(lines[at + offset])}, not {_shown(old)}{ends}."
    return "it overlaps the hunk before it."


def _shown(line: str) -> str:
    text = repr(line.rstrip("\n"))
    return text if len(text) <= 120 else f"{text[:117]}...{text[0]}"


def path_of(name: str) -> str:
    """The path in a patch, without git's ``a/`` or ``b/``. Errors: ``ValidationFault`` for a quoted one."""
    if name.startswith('"'):
        raise ValidationFault(f"The name {name} is quoted; such files cannot be patched.", code="invalid_patch")
    return next((name.removeprefix(one) for one in _PREFIXES if name.startswith(one)), name)
