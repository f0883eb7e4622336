"""Verification of a journal against its digests and against an anchor, the last line of an export."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import canonical
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.journal.lines import COLUMNS, DELETED, GENESIS, Anchor, Break, Line, ascii_json, chain, digest_body

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


#: Lines between two calls of ``progress``.
_STEP = 1000
_ENDS = """
SELECT conversation, owner, place, digest FROM lines
    JOIN (
        SELECT conversation AS name, owner AS whose, max(place) AS last FROM lines WHERE number <= ? GROUP BY 1, 2
    ) AS ends
        ON conversation = name AND owner = whose AND place = last
    ORDER BY conversation, owner
"""
#: The first number that no line has, where numbers have no gaps.
_GAP = """
SELECT min(number) FROM (SELECT number + 1 AS number FROM lines UNION SELECT 1 AS number) AS following
    WHERE number NOT IN (SELECT number FROM lines) AND number < (SELECT max(number) FROM lines)
"""


class _Ends:
    """The digest of the ends of all conversations, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, conversation: str, owner: str, place: int, digest: str) -> None:
        self._hash.update(canonical([conversation, owner, place, digest]))

    def anchor(self, number: int) -> Anchor:
        return Anchor(number=number, digest=self._hash.hexdigest())


def find_anchor(connection: Connection) -> Anchor:
    """The end of the journal: its highest number, and the digest over the ends of its conversations."""
    number = connection.execute("SELECT max(number) FROM lines").fetchone()[0] or 0
    if not number:
        return Anchor()
    ends = _Ends()
    for row in connection.execute(_ENDS, (number,)):
        ends.add(*row)
    return ends.anchor(number)


def find_break(
    database: Database, connection: Connection, anchor: Anchor, progress: Callable[[int], None] | None = None
) -> Break | None:
    """The first break, or None. Takes time proportional to the journal. Conversations are read one after another."""
    query = "SELECT conversation, owner, max(place) FROM lines WHERE stage = ? GROUP BY 1, 2"
    deletions = {(name, owner): last for name, owner, last in connection.execute(query, (DELETED,))}
    before, ends, end = None, _Ends(), None
    count = highest = 0
    for row in connection.execute(f"SELECT {COLUMNS} FROM lines ORDER BY conversation, owner, place"):
        line = Line(*row)
        follows = before is not None and (before.conversation, before.owner) == (line.conversation, line.owner)
        reason = _wrong(line, before if follows else None, deletions)
        if reason is not None:
            return Break(number=line.number, reason=reason)
        if end is not None and not follows:
            ends.add(*end)
            end = None
        if line.number <= anchor.number:
            end = line.conversation, line.owner, line.place, line.digest
        before, count, highest = line, count + 1, max(highest, line.number)
        if progress is not None and count % _STEP == 0:
            progress(count)
    if end is not None:
        ends.add(*end)
    if highest < anchor.number:
        return Break(number=highest + 1, reason=f"It is missing: the anchor names line {anchor.number}.")
    if anchor.number and ends.anchor(anchor.number) != anchor:
        return Break(number=anchor.number, reason="The lines up to it are not those that the anchor names.")
    if database.gapless and count != highest:
        missing = connection.execute(_GAP).fetchone()[0]
        return Break(number=missing, reason="It is missing.")
    damage = database.damage(connection)
    return None if damage is None else Break(number=None, reason=damage)


def _wrong(line: Line, before: Line | None, deletions: Mapping[tuple[str, str], int]) -> str | None:
    """The defect of a line, or None. The types in an altered journal may be wrong."""
    place, previous = (0, GENESIS) if before is None else (before.place, before.digest)
    if line.place != place + 1:
        return f"It has place {line.place} in its conversation, after the line of place {place}."
    if before is not None and line.number <= before.number:
        return "It comes before the line that it follows."
    if line.previous != previous:
        return "It does not follow the line before it."
    try:
        if chain(previous, line, line.place) != line.digest:
            return "It was changed."
        return _wrong_body(line, deletions)
    except (JsonInvalidity, ValueError, TypeError, AttributeError):
        return "It was changed."


def _wrong_body(line: Line, deletions: Mapping[tuple[str, str], int]) -> str | None:
    if line.body is not None and line.salt is not None:
        return None if digest_body(line.salt, line.body) == line.body_digest else "Its body was changed."
    deleted = deletions.get((line.conversation, line.owner), 0) > line.place
    if line.body is None and line.salt is None and line.stage != DELETED and deleted:
        return None
    return "Its body is missing, and no line records a deletion."
