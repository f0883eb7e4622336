"""The ensemble ``io``: reads and writes files, lists directories. All beneath the workspace.

Source of names and arguments: seed 000, sections 3.2.2, 3.2.3 and 3.2.6. Plain functions, because files block.
"""

import codecs
import heapq
import itertools
import os
import stat
from collections.abc import Iterator
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.faults import Change
from ripieno.toolset.rooms import Room

#: Bytes of a file that can be read, from its beginning.
READ_CAP = 10 * 1024 * 1024
#: Entries of a directory that are listed.
LIST_CAP = 10_000
#: Where a NUL makes a file binary: git looks as far.
_BINARY_PROBE = 8192
#: Characters among which line ends are counted at once.
_BLOCK = 1 << 16
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: The encodings of the seed, and what decodes them; a mark at the beginning is no part of the text.
_DECODERS = {"utf-8": "utf-8-sig", "ascii": "ascii", "latin-1": "latin-1", "utf-16": "utf-16"}


def read_file(context: Context, arguments: dict[str, Any]) -> str:
    """The text of a file, or its lines from ``start_line`` to ``end_line``, both included, counted from 1.

    Line ends stay as they are. Errors: those of ``Room``; ``ResourceFault`` for a file that is binary or too
    large; ``ValidationFault`` for a wrong encoding, and for lines that are not there.
    """
    path: str = arguments["path"]
    start: int | None = arguments.get("start_line")
    end: int | None = arguments.get("end_line")
    if start is not None and end is not None and start > end:
        raise ValidationFault(f"start_line {start} comes after end_line {end}.", code="out_of_range")
    encoding: str = arguments.get("encoding", "utf-8")
    all_lines = start is None and end is None
    with _room(context) as room, room.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_text(file.peek(_BINARY_PROBE)[:_BINARY_PROBE], encoding, path, size)
        # A file may be larger than its size says: those of /proc are.
        if all_lines and size > READ_CAP:
            raise _too_large(path, size)
        data = file.read(READ_CAP + 1) or b""  # None when there is nothing yet, as in some files of /proc
    whole = len(data) <= READ_CAP
    if all_lines and not whole:
        raise _too_large(path, max(size, len(data)))
    text = _decode(data[:READ_CAP], encoding, path, whole=whole)
    return text if all_lines else _lines(text, start or 1, end, path, whole=whole)


def write_file(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Writes text, as UTF-8 with line ends as they are, to a file; makes it, and its directories, when missing.

    Errors: those of ``Room``.
    """
    path: str = arguments["path"]
    append = arguments.get("mode", "overwrite") == "append"
    try:
        data = arguments["content"].encode()
    except UnicodeEncodeError as error:
        raise ValidationFault(
            f"The content has half a character in it, at position {error.start}.", code="invalid_content"
        ) from None
    with _room(context) as room:
        written = room.write_file(
            path, data, append=append, create_directories=arguments.get("create_directories", True)
        )
    verb = "Appended" if append else "Wrote"
    how = ", a new file" if written.created else "" if append else ", replacing what it had"
    changes = [Change.of("DirectoryCreated", path=directory) for directory in written.directories]
    changes.append(Change.of("FileCreated" if written.created else "FileModified", path=written.path))
    return Outcome(content=f"{verb} {written.size} bytes to {path}{how}.", changes=tuple(changes))


def list_directory(context: Context, arguments: dict[str, Any]) -> str:
    """The entries of a directory, sorted by name, one a line: ``folder/``, ``file (12 bytes)``, ``link -> target``.

    Errors: those of ``Room``.
    """
    path: str = arguments.get("path", ".")
    hidden: bool = arguments.get("include_hidden", False)
    total = itertools.count()
    with _room(context) as room, room.open_directory(path) as directory:
        with os.scandir(directory) as entries:
            names = (entry.name for entry in entries if hidden or not entry.name.startswith("."))
            # Counted while they pass by: of a million names no more is kept than is shown.
            shown = heapq.nsmallest(LIST_CAP, (name for name, _ in zip(names, total, strict=False)))
        lines = list(_describe(directory, shown))
    left_out = next(total) - len(shown)
    if left_out > 0:
        lines.append(f"[... {left_out} more entries left out ...]")
    if lines:
        return "\n".join(lines)
    return f"{path} is empty." if hidden else f"{path} is empty, or has hidden entries only."


def _room(context: Context) -> Room:
    if context.surroundings is None:
        raise ResourceFault("There is no workspace here.", code="workspace")
    return Room(context.surroundings.workspace)


def _too_large(path: str, size: int) -> ResourceFault:
    return ResourceFault(
        f"{path!r} has {size} bytes, and {READ_CAP} can be read.",
        code="too_large",
        details={"size": size, "limit": READ_CAP},
        suggestion="Read a part of it with start_line and end_line.",
    )


def _check_text(data: bytes, encoding: str, path: str, size: int) -> None:
    if encoding == "utf-16" or b"\0" not in data:
        return
    if data.startswith(_UTF_16_MARKS):
        raise ValidationFault(
            f"{path!r} is not {encoding}.", code="wrong_encoding", suggestion='Try encoding "utf-16".'
        )
    raise ResourceFault(
        f"{path!r} is a binary file of {size} bytes, not text.", code="binary_file", details={"size": size}
    )


def _decode(data: bytes, encoding: str, path: str, *, whole: bool) -> str:
    """``data`` as text. When it is not the whole file, half a character at its end is left out."""
    try:
        return codecs.getincrementaldecoder(_DECODERS[encoding])().decode(data, whole)
    except UnicodeDecodeError as error:
        others = ", ".join(f'"{name}"' for name in _DECODERS if name != encoding)
        raise ValidationFault(
            f"{path!r} is not {encoding}: {error.reason} at byte {error.start}.",
            code="wrong_encoding",
            suggestion=f'Try another encoding: {others}. "latin-1" takes any bytes.',
        ) from None


def _lines(text: str, start: int, end: int | None, path: str, *, whole: bool) -> str:
    """The lines from ``start`` to ``end``. Of a file that is not whole here, only whole lines count."""
    if not whole:
        text = text[: text.rfind("\n") + 1]
    begin = _skip_lines(text, 0, start - 1)
    finish = None if end is None or begin is None else _skip_lines(text, begin, end - start + 1)
    if whole and begin is not None and (begin < len(text) or start == 1):
        return text[begin:finish]
    if not whole and begin is not None and finish is not None:
        return text[begin:finish]
    count = text.count("\n") + (text != "" and not text.endswith("\n"))
    if whole:
        raise ValidationFault(f"{path!r} has {count} lines; there is no line {start}.", code="out_of_range")
    raise ResourceFault(
        f"Of {path!r}, only the first {READ_CAP} bytes can be read: lines 1 to {count}.",
        code="too_large",
        suggestion=f"Give an end_line of at most {count}." if count else None,
    )


def _skip_lines(text: str, position: int, count: int) -> int | None:
    """The position after that many lines; None when there are fewer line ends."""
    # Whole blocks first: counting is a hundred times faster than finding, and here a file may be all line ends.
    while (ends := text.count("\n", position, position + _BLOCK)) < count:
        count -= ends
        position += _BLOCK
        if position >= len(text):
            return None
    for _ in range(count):
        position = text.index("\n", position) + 1
    return position


def _describe(directory: int, names: list[str]) -> Iterator[str]:
    for name in names:
        shown = _printable(name)
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield f"{shown}/"
            elif stat.S_ISLNK(status.st_mode):
                yield f"{shown} -> {_printable(os.readlink(name, dir_fd=directory))}"
            elif stat.S_ISREG(status.st_mode):
                yield f"{shown} ({status.st_size} bytes)"
            else:
                yield f"{shown} (not a file)"
        except OSError:
            # Deleted meanwhile, or not ours to look at; it was there.
            yield shown


def _printable(name: str) -> str:
    """A name on one line: control characters and what is no UTF-8 are escaped, so that none can pose as another."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
