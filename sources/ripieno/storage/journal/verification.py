"""Verification of a journal against its digests and against an anchor, the last line of an export."""

import json
import pathlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.storage.journal.lines import DELETED, GENESIS, Anchor, Break, Row, ascii_json, chain, digest_body

#: Bytes at the end of a file that are searched for the anchor; its line is shorter.
_TAIL = 4096


def anchor_line(anchor: Anchor) -> str:
    """The line ``{"anchor":{"digest":"…","number":12}}`` with a newline."""
    return ascii_json({"anchor": {"number": anchor.number, "digest": anchor.digest}}) + "\n"


def read_anchor(path: pathlib.Path) -> Anchor:
    """The anchor on the last line of a file. Errors: ``InputError`` when there is none, ``OSError``."""
    with open(path, "rb", opener=open_regular) as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        lines = file.read().splitlines()
    try:
        stored: Any = json.loads(lines[-1])["anchor"]
        number, digest = stored["number"], stored["digest"]
        if type(number) is not int or number < 0 or len(bytes.fromhex(digest)) != 32:
            raise ValueError
    except (IndexError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} does not end with an anchor. To write a file with one: ripieno journal export --output FILE"
        ) from None
    return Anchor(number=number, digest=digest)


COLUMNS = "number, conversation, turn, stage, tool, invocation, at, body, salt, body_digest, previous, digest, owner"

#: Lines between two calls of ``progress``.
_STEP = 1000


def find_break(
    connection: sqlite3.Connection, anchor: Anchor, progress: Callable[[int], None] | None = None
) -> Break | None:
    """The first break, or None. Takes time proportional to the file."""
    last = 0
    try:
        connection.execute("BEGIN")
        query = "SELECT conversation, owner, max(number) FROM lines NOT INDEXED WHERE stage = ? GROUP BY 1, 2"
        deletions = {(name, owner): last for name, owner, last in connection.execute(query, (DELETED,))}
        previous = GENESIS
        for row in connection.execute(f"SELECT {COLUMNS} FROM lines NOT INDEXED ORDER BY number"):
            reason = _wrong(row, last + 1, previous, deletions)
            if reason is not None:
                return Break(number=last + 1, reason=reason)
            last, previous = last + 1, row[11]
            if progress is not None and last % _STEP == 0:
                progress(last)
            if last == anchor.number and previous != anchor.digest:
                return Break(number=last, reason="It differs from the line that the anchor names.")
        if last < anchor.number:
            return Break(number=last + 1, reason=f"It is missing: the anchor names line {anchor.number}.")
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        return None if found == "ok" else Break(number=None, reason=f"The file is damaged: {found}.")
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        return Break(number=last + 1, reason=f"The file is damaged: {error}.")
    finally:
        connection.rollback()


def _wrong(row: Row, number: int, previous: str, deletions: Mapping[tuple[str, str], int]) -> str | None:
    """The defect of a line, or None. The types in an altered file may be wrong."""
    if row[0] != number:
        return f"It is missing: line {row[0]} comes next." if row[0] > number else f"Line {row[0]} comes before it."
    if row[10] != previous:
        return "It does not follow the line before it."
    try:
        if chain(previous, row[:7], row[9], row[12]) != row[11]:
            return "It was changed."
        return _wrong_body(row, deletions)
    except (JsonInvalidity, ValueError, TypeError, AttributeError):
        return "It was changed."


def _wrong_body(row: Row, deletions: Mapping[tuple[str, str], int]) -> str | None:
    body, salt = row[7], row[8]
    if body is not None and salt is not None:
        return None if digest_body(salt, body) == row[9] else "Its body was changed."
    if body is None and salt is None and row[3] != DELETED and deletions.get((row[1], row[12]), 0) > row[0]:
        return None
    return "Its body is missing, and no line records a deletion."
