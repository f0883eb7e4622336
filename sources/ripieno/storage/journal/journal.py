"""The journal in a SQLite file: an append-only, hash-chained record of conversations that programs may share."""

import contextlib
import os
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from ripieno.canisters import Conversation
from ripieno.storage.journal.database import Place, connect, fingerprints, translated_errors
from ripieno.storage.journal.lines import (
    DELETED,
    Anchor,
    Break,
    Line,
    ascii_json,
    draft,
    draft_deletion,
    placed,
    says,
    written,
)
from ripieno.storage.journal.restoration import InvocationState, Restored, fold, restore
from ripieno.storage.journal.statistics import Statistics, compute
from ripieno.storage.journal.summaries import Summary, identify, of_owner, require, summarize
from ripieno.storage.journal.verification import COLUMNS, find_break
from ripieno.storage.records import Record

#: The file name of a user's journal in their state folder.
NAME = "journal.sqlite3"
#: Lines read at once, so that readers do not block writers.
_BATCH = 256
#: Connections of parent processes from before a fork. SQLite forbids any use of them here, even closing.
_abandoned: list[sqlite3.Connection] = []
_INSERT = f"INSERT INTO lines ({COLUMNS}) VALUES ({', '.join('?' * 13)})"


class Journal:
    """The journal in one file of mode 0600; a ``Recorder``. Threads and programs may share it.

    In all texts of a record, ``secrets`` of 8 characters or more become fingerprints (``[secret 3f9a41c07b52]``) before
    anything is hashed or written. Their key is in the file beside it with the suffix ``.key``.

    ``owner`` limits a look-up to the lines of one user or client; a server names it every time. None means all owners,
    for the person who may read the file.

    Errors, here and in all methods: ``InputError`` with the reason when the file cannot be used.
    """

    def __init__(self, path: pathlib.Path, *, secrets: Iterable[str] = ()) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._open()
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
        """Closes the file. The next use opens it again."""
        with self._lock:
            self._leave_others()
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def record(self, records: Sequence[Record]) -> None:
        """Appends all records in one commit, or none. On return they are on the disk.

        Errors: ``InputError``, for example for a full disk or when the file was deleted, moved or replaced since it was
        opened; ``JsonInvalidity`` for names that are not Unicode.
        """
        drafts = [self._draft(record) for record in records]
        if drafts:
            with self._writing("written") as connection:
                _append(connection, drafts)

    def anchor(self) -> Anchor:
        """The present end of the journal. Kept elsewhere, it lets ``verify`` detect truncation."""
        with self._using("read") as connection:
            return _end(connection)

    def verify(self, anchor: Anchor | None = None, *, progress: Callable[[int], None] | None = None) -> Break | None:
        """The first altered line, or None. ``progress`` receives the number of lines read.

        Detects lines that were changed, dropped, inserted or moved. Truncation, and a journal rewritten from some line
        on (possible for any program that can write the file), are detected only with an anchor from after those lines.
        It shows tampering and does not prevent it.
        """
        with translated_errors(self.path, "verified"), contextlib.closing(connect(self.path)) as connection:
            # A new connection has no cached pages that the file no longer has.
            return find_break(connection, anchor or Anchor(), progress)

    def lines(
        self,
        conversation: str | None = None,
        *,
        owner: str | None = None,
        stage: str | None = None,
        tool: str | None = None,
        text: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Generator[Line, None, None]:
        """The lines in order that match a conversation, a stage, a tool and a text; at most ``limit``.

        ``text`` is searched literally in values of the bodies, not in names of fields. ``after`` is a line number. A
        secret in a filter matches its fingerprint.
        """
        wanted = {"conversation": conversation, "owner": owner, "stage": stage, "tool": tool}
        filters = {name: self._redactor.text(value) for name, value in wanted.items() if value is not None}
        sought = None if text is None else self._redactor.text(text)
        # SQLite also matches names of fields; ``says`` filters these out.
        forms = () if sought is None else written(sought)
        conditions = " AND ".join(["number > ?", *(f"{name} = ?" for name in filters)])
        if forms:
            conditions += f" AND ({' OR '.join(['instr(body, ?)'] * len(forms))})"
        query = f"SELECT {COLUMNS} FROM lines WHERE {conditions} ORDER BY number LIMIT {_BATCH}"
        last, given = after or 0, 0
        while limit is None or given < limit:
            with self._using("read") as connection:
                rows = connection.execute(query, (last, *filters.values(), *forms)).fetchall()
            for row in rows:
                line = Line(*row)
                if sought is None or says(line, sought) is not None:
                    yield line
                    given += 1
                    if given == limit:
                        return
            if len(rows) < _BATCH:
                return
            last = rows[-1][0]

    def export(self, conversation: str | None = None) -> Iterator[str]:
        """A conversation, or all lines, as JSONL in printable ASCII, each ending in a newline.

        Each object has all fields of ``Line``, with the body as a value. The digests can be recomputed from its
        canonical JSON.
        """
        return (ascii_json(line.mapping()) + "\n" for line in self.lines(conversation))

    def state_of(self, conversation: str, *, owner: str | None = None) -> tuple[InvocationState, ...]:
        """The state of each call of a conversation, in order of first mention."""
        return fold(self.lines(conversation, owner=owner))

    def conversations(self, *, owner: str | None = None, limit: int | None = None) -> Generator[Summary, None, None]:
        """Summaries of the conversations, the most recently written first; at most ``limit``."""
        condition, parameters = of_owner(owner and self._redactor.text(owner))
        query = f"SELECT conversation, owner FROM lines WHERE {condition} GROUP BY 1, 2 ORDER BY max(number) DESC"
        with self._using("read") as connection:
            names = connection.execute(query, parameters).fetchall()
        for name, whose in names[:limit]:
            with self._using("read") as connection:
                summary = summarize(connection, name, whose)
            yield summary

    def summary(self, conversation: str, *, owner: str) -> Summary:
        """The summary of exactly this conversation of an owner. Errors: ``NameAbsence``."""
        name, whose = self._redactor.text(conversation), self._redactor.text(owner)
        with self._using("read") as connection:
            require(connection, name, whose)
            return summarize(connection, name, whose)

    def find(self, beginning: str) -> Summary:
        """The conversation that a person means: its identifier equals a text, or is the only one that begins with it.

        Programs name a conversation exactly, as in all other methods: a prefix may be another user's conversation.
        Errors: ``NameAbsence`` for none, ``InputError`` for several.
        """
        with self._using("read") as connection:
            return summarize(connection, *identify(connection, self._redactor.text(beginning)))

    def restore(self, conversation: str, *, owner: str | None = None, until: int | None = None) -> Restored:
        """The conversation of exactly this name, or its first ``until`` canisters, with the states of its last calls.

        Errors: ``NameAbsence``; ``InputError`` when it was deleted or cannot be cut there.
        """
        name = self._redactor.text(conversation)
        with self._using("read") as connection:
            require(connection, name, owner and self._redactor.text(owner))
        return restore(name, self.lines(name, owner=owner), until=until)

    def fork(self, conversation: str, *, owner: str | None = None, until: int | None = None) -> Conversation:
        """Records a conversation, or its first ``until`` canisters, under a new identifier.

        Errors: those of ``restore``.
        """
        forked, records = self.restore(conversation, owner=owner, until=until).fork()
        self.record(records)
        return forked

    def statistics(self, *, since: str = "", conversation: str | None = None, owner: str | None = None) -> Statistics:
        """Totals of the lines since a time (ISO 8601, UTC), or of one conversation."""
        # A separate connection does not block writers.
        with translated_errors(self.path, "read"), contextlib.closing(connect(self.path)) as connection:
            return compute(connection, since=since, conversation=conversation, owner=owner)

    def delete(self, conversation: str, *, owner: str | None = None) -> int:
        """Deletes the bodies of a conversation from the file, and returns their number.

        Each line keeps its number, conversation, turn, stage, tool, invocation, time and body digest; a line of stage
        ``deleted`` records the deletion. ``verify`` still proves that these lines existed, in this order and at these
        times, and that no other line changed. Of the bodies it can only prove that an exported copy, with its salt, is
        or is not the original. A missing body without such a line is a break.

        Errors: ``NameAbsence`` when there is no such conversation. ``InputError`` when another program reads for so
        long that the old text stays in the write-ahead log: run it again.
        """
        name = self._redactor.text(conversation)
        with self._writing("changed") as connection:
            whose = owner and self._redactor.text(owner)
            require(connection, name, whose)
            condition, parameters = of_owner(whose)
            where = f"WHERE conversation = ? AND stage != ? AND body NOT NULL AND {condition}"
            given = (name, DELETED, *parameters)
            counts = connection.execute(f"SELECT owner, count(*) FROM lines {where} GROUP BY owner", given).fetchall()
            connection.execute(f"UPDATE lines SET body = NULL, salt = NULL {where}", given)
            _append(connection, [draft_deletion(name, count, one) for one, count in counts])
            bodies = sum(int(count) for _, count in counts)
        with self._using("cleaned") as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise sqlite3.OperationalError("another program reads it: the deleted text is still in its -wal file")
        return bodies

    def _draft(self, record: Record) -> Line:
        line = draft(record)
        texts = (line.conversation, line.tool, line.invocation or "", line.body or "", line.owner)
        return draft(record, self._redactor) if self._redactor.suspects(*texts) else line

    @contextlib.contextmanager
    def _using(self, action: str) -> Generator[sqlite3.Connection, None, None]:
        with self._lock, translated_errors(self.path, action):
            self._leave_others()
            yield self._connection or self._open()

    def _open(self) -> sqlite3.Connection:
        self._connection = connect(self.path)
        self._place = Place(self.path)
        return self._connection

    def _leave_others(self) -> None:
        """After a fork, abandons the parent's connection."""
        if self._process != os.getpid():
            self._process = os.getpid()
            if self._connection is not None:
                _abandoned.append(self._connection)
                self._connection = None

    @contextlib.contextmanager
    def _writing(self, action: str) -> Generator[sqlite3.Connection, None, None]:
        """One exclusive commit; rolled back when anything is raised.

        Errors: ``InputError`` when the commit is in a file that is no longer at the path.
        """
        with self._using(action) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            self._place.check()


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
