"""The journal in a SQLite file: an append-only, hash-chained record of conversations, which programs may share."""

import contextlib
import os
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from ripieno.canisters import Conversation
from ripieno.exceptions import NameAbsence
from ripieno.storage.journal.database import connect, said
from ripieno.storage.journal.fingerprints import fingerprints
from ripieno.storage.journal.lines import (
    DELETED,
    Anchor,
    Break,
    Line,
    Row,
    ascii_json,
    draft,
    draft_deletion,
    placed,
    says,
    written,
)
from ripieno.storage.journal.restoration import InvocationState, Restored, fold, restore
from ripieno.storage.journal.statistics import Statistics, compute
from ripieno.storage.journal.summaries import Summary, identify, order, summarize
from ripieno.storage.journal.verification import COLUMNS, find_break
from ripieno.storage.records import Record

#: What the journal of a user is called, in the folder of their state.
NAME = "journal.sqlite3"
#: Lines that are read at once, so that nobody who reads keeps others from writing.
_BATCH = 256
#: Connections of processes that this one was forked from. SQLite forbids to use them here, even to close them.
_abandoned: list[sqlite3.Connection] = []
_INSERT = f"INSERT INTO lines ({COLUMNS}) VALUES ({', '.join('?' * 12)})"


class Journal:
    """The journal in one file, of mode 0600; a ``Recorder``. Threads and programs may share it.

    In all texts of a record ``secrets`` of 8 characters or more become fingerprints (``[secret 3f9a41c07b52]``) before
    anything is hashed or written; their key lies beside the file, under its name with ``.key``.

    Errors, here and in all methods: ``InputError`` when the file cannot be used, which says why.
    """

    def __init__(self, path: pathlib.Path, *, secrets: Iterable[str] = ()) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = connect(path)
        try:
            self._redactor = fingerprints(secrets, path.with_name(path.name + ".key"))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. The journal opens it again when it is used."""
        with self._lock:
            self._leave_others()
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def record(self, records: Sequence[Record]) -> None:
        """Appends these in one commit. When it returns they are on the disk; when it raises none of them is.

        Errors: ``InputError``, as for a full disk, and ``JsonInvalidity`` for names that are not Unicode.
        """
        drafts = [self._draft(record) for record in records]
        if drafts:
            with self._writing("written") as connection:
                _append(connection, drafts)

    def anchor(self) -> Anchor:
        """Where the journal ends now. Keep it elsewhere, and ``verify`` finds a tail that was cut off."""
        with self._using("read") as connection:
            return _end(connection)

    def verify(self, anchor: Anchor | None = None, *, progress: Callable[[int], None] | None = None) -> Break | None:
        """The first line that is not as it was written, or None. ``progress`` is told how many were read by now.

        Found are lines that were changed, dropped, put in or moved. That the last lines were cut off is found with an
        anchor from after they were written; and so is a journal that somebody wrote anew from some line on, which
        whoever can write the file can do. It shows tampering, and does not prevent it.
        """
        with said(self.path, "verified"), contextlib.closing(connect(self.path)) as connection:
            # A connection of its own has nothing in memory that the file no longer has.
            return find_break(connection, anchor or Anchor(), progress)

    def lines(
        self,
        conversation: str | None = None,
        *,
        stage: str | None = None,
        tool: str | None = None,
        text: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Generator[Line, None, None]:
        """The lines in their order: those of a conversation, a stage, a tool, that say a text; at most ``limit``.

        ``text`` is looked for as it stands, within values of the bodies, not in names of fields. ``after`` is a line's
        number. A secret that is asked for is found where its fingerprint stands.
        """
        wanted = {"conversation": conversation, "stage": stage, "tool": tool}
        asked = {name: self._redactor.text(value) for name, value in wanted.items() if value is not None}
        sought = None if text is None else self._redactor.text(text)
        # What SQLite finds may stand in names of fields, too: ``says`` has the last word.
        forms = () if sought is None else written(sought)
        conditions = " AND ".join(["number > ?", *(f"{name} = ?" for name in asked)])
        if forms:
            conditions += f" AND ({' OR '.join(['instr(body, ?)'] * len(forms))})"
        query = f"SELECT {COLUMNS} FROM lines WHERE {conditions} ORDER BY number LIMIT {_BATCH}"
        last, given = after or 0, 0
        while limit is None or given < limit:
            with self._using("read") as connection:
                rows = connection.execute(query, (last, *asked.values(), *forms)).fetchall()
            for row in rows:
                line = _line(row)
                if sought is None or says(line, sought) is not None:
                    yield line
                    given += 1
                    if given == limit:
                        return
            if len(rows) < _BATCH:
                return
            last = rows[-1][0]

    def export(self, conversation: str | None = None) -> Iterator[str]:
        """A conversation, or everything, as JSONL in printable ASCII: an object for each line, which ends in a newline.

        It has all fields of ``Line``, with the body as a value. From the canonical JSON of that its digests can be
        computed again.
        """
        return (ascii_json(line.mapping()) + "\n" for line in self.lines(conversation))

    def state_of(self, conversation: str) -> tuple[InvocationState, ...]:
        """What became of each call of a conversation, in the order in which the lines first tell of them."""
        return fold(self.lines(conversation))

    def conversations(self, *, limit: int | None = None) -> Generator[Summary, None, None]:
        """The conversations in short, the one that was written to last first; at most ``limit``."""
        with self._using("read") as connection:
            names = order(connection)
        for name in names[:limit]:
            with self._using("read") as connection:
                summary = summarize(connection, name)
            yield summary

    def find(self, beginning: str) -> Summary:
        """The conversation whose identifier is, or begins with, a text.

        Errors: ``NameAbsence`` for none, ``InputError`` for several.
        """
        with self._using("read") as connection:
            return summarize(connection, identify(connection, self._redactor.text(beginning)))

    def restore(self, conversation: str, *, until: int | None = None) -> Restored:
        """A conversation, or its first ``until`` canisters, and what became of the calls of its last message.

        Errors: ``NameAbsence``; ``InputError`` when it was deleted, or cannot be cut there.
        """
        name = self.find(conversation).identifier
        return restore(name, self.lines(name), until=until)

    def fork(self, conversation: str, *, until: int | None = None) -> Conversation:
        """A conversation, or its first ``until`` canisters, under a new identifier, which is written down here.

        Errors: those of ``restore``.
        """
        forked, records = self.restore(conversation, until=until).fork()
        self.record(records)
        return forked

    def statistics(self, *, since: str = "", conversation: str | None = None) -> Statistics:
        """What the lines from a time on (ISO 8601, UTC), or of one conversation, add up to."""
        # A connection of its own keeps nobody from writing meanwhile.
        with said(self.path, "read"), contextlib.closing(connect(self.path)) as connection:
            return compute(connection, since=since, conversation=conversation)

    def delete(self, conversation: str) -> int:
        """Deletes the bodies of a conversation from the file, and gives their number.

        Of each line stay the number, the conversation's identifier, turn, stage, tool, the call's identifier, the time
        and the digest of its body; a line of stage ``deleted`` says what was done. ``verify`` then still proves that
        there were these lines, in this order and at these times, and that no other line was touched. What the bodies
        said is gone: it proves only that a copy somebody kept, with its salt, as ``export`` gives it, is or is not what
        was written. A body that is missing without such a line is found as a break.

        Errors: ``NameAbsence`` when there is no such conversation. ``InputError`` when another program reads for so
        long that the old text stays in the write-ahead log: run it again.
        """
        name = self._redactor.text(conversation)
        with self._writing("changed") as connection:
            known = connection.execute("SELECT 1 FROM lines WHERE conversation = ? LIMIT 1", (name,)).fetchone()
            if known is None:
                names = (one for (one,) in connection.execute("SELECT DISTINCT conversation FROM lines"))
                raise NameAbsence("conversation", conversation, names)
            update = "UPDATE lines SET body = NULL, salt = NULL WHERE conversation = ? AND stage != ? AND body NOT NULL"
            bodies = connection.execute(update, (name, DELETED)).rowcount
            if bodies:
                _append(connection, [draft_deletion(name, bodies)])
        with self._using("cleaned") as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise sqlite3.OperationalError("another program reads it, so deleted text is still in its -wal file")
        return bodies

    def _draft(self, record: Record) -> Line:
        line = draft(record)
        texts = (line.conversation, line.tool, line.invocation or "", line.body or "")
        return draft(record, self._redactor) if self._redactor.suspects(*texts) else line

    @contextlib.contextmanager
    def _using(self, what: str) -> Generator[sqlite3.Connection, None, None]:
        with self._lock, said(self.path, what):
            self._leave_others()
            if self._connection is None:
                self._connection = connect(self.path)
            yield self._connection

    def _leave_others(self) -> None:
        """In a process that was forked, leaves the connection alone that it was forked with."""
        if self._process != os.getpid():
            self._process = os.getpid()
            if self._connection is not None:
                _abandoned.append(self._connection)
                self._connection = None

    @contextlib.contextmanager
    def _writing(self, what: str) -> Generator[sqlite3.Connection, None, None]:
        """One commit, with nobody else writing meanwhile; nothing at all when anything is raised."""
        with self._using(what) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise


def _append(connection: sqlite3.Connection, drafts: Sequence[Line]) -> None:
    anchor = _end(connection)
    for line in drafts:
        row = placed(line, anchor)
        connection.execute(_INSERT, row)
        anchor = Anchor(number=row[0], digest=row[11])


def _end(connection: sqlite3.Connection) -> Anchor:
    found: tuple[int, str] | None = connection.execute(
        "SELECT number, digest FROM lines ORDER BY number DESC LIMIT 1"
    ).fetchone()
    return Anchor() if found is None else Anchor(number=found[0], digest=found[1])


def _line(row: Row) -> Line:
    fields: dict[str, Any] = dict(zip(Line.__dataclass_fields__, row, strict=True))
    return Line(**fields)
