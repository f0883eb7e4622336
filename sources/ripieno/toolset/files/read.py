"""Reading files: whole, some lines, the beginning or the end.

Source of names and arguments: seed 000, sections 3.2.2 and 11.3. Plain functions, because files block.
"""

import codecs
import os
from typing import Any

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.storage.undo import digest
from ripieno.toolset.arguments import several
from ripieno.toolset.files.session import BINARY_PROBE, READ_CAP, open_workspace, readings
from ripieno.toolset.workspace.entries import explaining

#: Characters whose line ends are counted at once.
_BLOCK = 1 << 16
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: The seed's encodings and their decoders; a byte order mark is not part of the text.
_DECODERS = {"utf-8": "utf-8-sig", "ascii": "ascii", "latin-1": "latin-1", "utf-16": "utf-16"}
_LINES = 10


def read_file(context: Context, arguments: dict[str, Any]) -> str:
    """The text of a file, or its lines from ``start_line`` to ``end_line``, both included, counted from 1.

    Line ends are unchanged. Errors: those of ``Workspace``; ``ResourceFault`` for a binary or too large file;
    ``ValidationFault`` for a wrong encoding or missing lines.
    """
    path: str = arguments["path"]
    start: int | None = arguments.get("start_line")
    end: int | None = arguments.get("end_line")
    if start is not None and end is not None and start > end:
        raise ValidationFault(
            f"start_line {start} comes after end_line {end}.",
            code="out_of_range",
            suggestion="Both are numbers of lines, counted from 1 and included.",
        )
    encoding: str = arguments.get("encoding", "utf-8")
    all_lines = start is None and end is None
    data, size, whole = _load(context, path, encoding, complete=all_lines)
    if all_lines and not whole:
        raise _too_large(path, max(size, len(data)))
    text = _decode(data[:READ_CAP], encoding, path, whole=whole)
    return text if all_lines else _lines(text, start or 1, end, path, whole=whole)


def read_end(context: Context, arguments: dict[str, Any]) -> str:
    """The first or the last ``lines`` of a file; ``end`` is ``first`` or ``last``.

    In a larger file than can be read, the lines must be within the readable part. Errors: as ``read_file``.
    """
    path: str = arguments["path"]
    count: int = arguments.get("lines", _LINES)
    encoding: str = arguments.get("encoding", "utf-8")
    first = arguments["end"] == "first"
    data, size, whole = _load(context, path, encoding, last=not first)
    if whole or first:
        text = _decode(data, encoding, path, whole=whole)
    else:
        text = data.decode("utf-16-le" if encoding == "utf-16" else encoding, errors="replace")
    lines = text.split("\n")
    ended = lines[-1] == ""
    count += 1 if ended and not first else 0
    chosen = lines[:count] if first else lines[-count:]
    if not whole and count >= len(lines):
        raise _too_large(path, size)
    kept = "\n".join(chosen)
    return kept + "\n" if first and len(chosen) < len(lines) else kept


def _load(
    context: Context, path: str, encoding: str, *, complete: bool = False, last: bool = False
) -> tuple[bytes, int, bool]:
    """At most ``READ_CAP + 1`` bytes of a file, its stated size, and whether that is all of it.

    ``complete`` refuses a larger file; ``last`` reads its end. The content is remembered, so that an edit of other
    content can be refused.
    """
    with open_workspace(context) as workspace:
        file, true_path = workspace.find_file(path)
    with explaining(path), file:
        size = os.fstat(file.fileno()).st_size
        _check_text(file.peek(BINARY_PROBE)[:BINARY_PROBE], encoding, path, size)
        if complete and size > READ_CAP:
            raise _too_large(path, size)
        if last and size > READ_CAP:
            # In UTF-16 every character begins at an even offset.
            file.seek((size - READ_CAP) // 2 * 2)
        data = file.read(READ_CAP + 1) or b""  # None without data yet, as in some files of /proc
    # A file may be larger than its stated size, as in /proc.
    whole = size <= READ_CAP and len(data) <= READ_CAP
    if whole:
        readings(context)[true_path] = digest(data)
    else:
        readings(context).pop(true_path, None)
    return data, size, whole


def _too_large(path: str, size: int) -> ResourceFault:
    return ResourceFault(
        f"{path!r} has {size} bytes; at most {READ_CAP} can be read at once.",
        code="too_large",
        details={"size": size, "limit": READ_CAP},
        suggestion="Read a part of it: read_file with start_line and end_line, or fewer lines with head or tail.",
    )


def _check_text(data: bytes, encoding: str, path: str, size: int) -> None:
    if encoding == "utf-16" or b"\0" not in data:
        return
    if data.startswith(_UTF_16_MARKS):
        raise ValidationFault(
            f"{path!r} is not {encoding}.", code="wrong_encoding", suggestion='Try encoding "utf-16".'
        )
    raise ResourceFault(
        f"{path!r} is a binary file of {several(size, 'byte')}, not text.",
        code="binary_file",
        details={"size": size},
        suggestion='If it is UTF-16, give encoding = "utf-16"; otherwise read it with a program for its format.',
    )


def _decode(data: bytes, encoding: str, path: str, *, whole: bool) -> str:
    """``data`` as text; half a character at the end of an incomplete part is left out."""
    try:
        return codecs.getincrementaldecoder(_DECODERS[encoding])().decode(data, whole)
    except UnicodeError as error:
        others = ", ".join(f'"{name}"' for name in _DECODERS if name != encoding)
        reason = f"{error.reason} at byte {error.start}" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValidationFault(
            f"{path!r} is not {encoding}: {reason}.",
            code="wrong_encoding",
            suggestion=f'Try another encoding: {others}. "latin-1" takes any bytes.',
        ) from None


def _lines(text: str, start: int, end: int | None, path: str, *, whole: bool) -> str:
    """The lines from ``start`` to ``end``; of an incomplete text, only complete lines count."""
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
        raise ValidationFault(
            f"{path!r} has {several(count, 'line')}; there is no line {start}.",
            code="out_of_range",
            suggestion=f"Give a start_line from 1 to {count}." if count else "The file is empty.",
        )
    raise ResourceFault(
        f"Of {path!r}, only the first {READ_CAP} bytes can be read: lines 1 to {count}.",
        code="too_large",
        suggestion=f"Give an end_line of at most {count}." if count else None,
    )


def _skip_lines(text: str, position: int, count: int) -> int | None:
    """The position after that many lines; None if there are fewer line ends."""
    # Whole blocks first: counting is a hundred times faster than finding, and a file may be all line ends.
    while (ends := text.count("\n", position, position + _BLOCK)) < count:
        count -= ends
        position += _BLOCK
        if position >= len(text):
            return None
    for _ in range(count):
        position = text.index("\n", position) + 1
    return position
