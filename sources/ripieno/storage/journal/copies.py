"""Copies a journal to another database: line by line as it is, with its paused conversations and approvals."""

from collections.abc import Callable, Collection, Sequence

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Connection, RowConflict, row_key
from ripieno.storage.journal.ends import digest_at, end_of
from ripieno.storage.journal.insertions import insert
from ripieno.storage.journal.journal import Journal
from ripieno.storage.journal.lines import COLUMNS, DELETED, Line, chain, digest_body
from ripieno.storage.journal.summaries import Key

#: Lines and characters in one commit. The last line may have more.
_BATCH, _CHARACTERS = 500, 16 * 1024 * 1024
_GRANTS = "token, conversation, invocation, tool, definition, arguments, rules, issued, expires, used"


def copy_journal(source: Journal, target: Journal, progress: Callable[[int], None] | None = None) -> int:
    """Copies all lines that the target does not have, in their order; returns their number.

    Digests stay, numbers may change. A copy that was cut off is continued by the next one. A conversation of the target
    may be the beginning of the one in the source. What waits is then as in the source, also if nothing does; in
    conversations that have gone on in the target, or are there only, it stays. A grant that one has used is used.

    Errors: ``InputError`` for a line that was altered, for another conversation of the same name, or if another program
    writes to the same conversations; what was copied before stays.
    """
    try:
        return _copy(source, target, progress)
    finally:
        target.database.clean()


def _copy(source: Journal, target: Journal, progress: Callable[[int], None] | None) -> int:
    ends: dict[Key, tuple[int, str]] = {}
    last: dict[Key, tuple[int, str]] = {}
    copied, size, batch = 0, 0, list[Line]()
    with source.database.snapshot("read") as reading:
        for number, row in enumerate(reading.execute(f"SELECT {COLUMNS} FROM lines ORDER BY number"), 1):
            line = Line(*row)
            last[line.conversation, line.owner] = line.place, line.digest
            if _is_new(line, ends, target):
                batch.append(line)
                size += len(line.body or "")
            if len(batch) == _BATCH or size > _CHARACTERS:
                copied += _write(target, batch)
                size = 0
            if progress is not None and number % _BATCH == 0:
                progress(number)
        copied += _write(target, batch)
        paused = reading.execute("SELECT owner, conversation, at, body FROM paused").fetchall()
        grants = reading.execute(f"SELECT {_GRANTS} FROM grants").fetchall()
    longer = {key: end for key, end in last.items() if ends[key][0] > end[0]}
    for key, end in longer.items():
        with target.database.using("read") as connection:
            if digest_at(connection, key, end[0]) != end[1]:
                raise _continued_in_both(target, key)
    ahead = {row_key(owner, name) for name, owner in longer}
    known = {row_key(owner, name) for name, owner in last}
    with target.database.writing("written") as connection:
        _write_paused(connection, [row for row in paused if tuple(row[:2]) not in ahead], known - ahead)
        for row in grants:
            connection.execute(
                f"INSERT INTO grants ({_GRANTS}) VALUES ({', '.join('?' * len(row))}) "
                "ON CONFLICT (token) DO UPDATE SET used = coalesce(grants.used, excluded.used)",
                row,
            )
    return copied


def _write_paused(connection: Connection, rows: Sequence[Sequence[str]], known: Collection[Key]) -> None:
    """Writes what waits. Of the ``known`` conversations, nothing else does."""
    wait = {(owner, name) for owner, name, _, _ in rows}
    for owner, name in connection.execute("SELECT owner, conversation FROM paused").fetchall():
        if (owner, name) in known and (owner, name) not in wait:
            connection.execute("DELETE FROM paused WHERE owner = ? AND conversation = ?", (owner, name))
    for row in rows:
        connection.execute(
            "INSERT INTO paused (owner, conversation, at, body) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (owner, conversation) DO UPDATE SET at = excluded.at, body = excluded.body "
            "WHERE excluded.at >= paused.at",
            row,
        )


def _is_new(line: Line, ends: dict[Key, tuple[int, str]], target: Journal) -> bool:
    """Whether the target lacks a line. ``ends`` are the last lines of the target's conversations so far."""
    key = line.conversation, line.owner
    if key not in ends:
        with target.database.using("read") as connection:
            ends[key] = end_of(connection, key)
    place, digest = ends[key]
    if line.place < place:
        return False
    if line.place == place:
        if line.digest != digest:
            raise _continued_in_both(target, key)
        return False
    body = line.body is None or line.salt is None or digest_body(line.salt, line.body) == line.body_digest
    if line.place != place + 1 or line.previous != digest or chain(digest, line, line.place) != line.digest or not body:
        raise InputError(f"Line {line.number} was altered. To see where and how: ripieno journal verify")
    ends[key] = line.place, line.digest
    return True


def _continued_in_both(target: Journal, key: Key) -> InputError:
    return InputError(
        f"{target.name} has another conversation {key[0]!r}, or this one was continued in both. Copy to another place."
    )


def _write(target: Journal, batch: list[Line]) -> int:
    """Writes lines in one commit, and empties the list; returns their number."""
    count = len(batch)
    if count:
        try:
            with target.database.writing("written") as connection:
                _insert(connection, batch)
        except RowConflict:
            raise InputError(
                f"Another program writes to {target.name}, such as another copy. When it has ended, copy again: what "
                "was copied stays."
            ) from None
        batch.clear()
    return count


def _insert(connection: Connection, lines: Sequence[Line]) -> None:
    insert(connection, lines)
    for line in lines:
        if line.stage == DELETED:
            # An earlier copy may have the bodies.
            condition = "conversation = ? AND owner = ? AND place < ? AND stage != ?"
            values = (line.conversation, line.owner, line.place, DELETED)
            connection.execute(f"UPDATE lines SET body = NULL, salt = NULL WHERE {condition}", values)
