"""The journal: an append-only, hash-chained record of conversations that programs may share."""

import collections
import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from ripieno.canisters import Conversation
from ripieno.storage.databases.contract import Connection, Database, Disconnected, Fence, row_key
from ripieno.storage.databases.opening import database_at
from ripieno.storage.databases.tables import BESIDE
from ripieno.storage.journal.ends import end_of, find_beginning, usage_of
from ripieno.storage.journal.fingerprints import fingerprints
from ripieno.storage.journal.insertions import MOST, insert
from ripieno.storage.journal.lines import (
    COLUMNS,
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
from ripieno.storage.journal.outage import Outage
from ripieno.storage.journal.pages import Page, read_page
from ripieno.storage.journal.restoration import InvocationState, Restored, fold, restore
from ripieno.storage.journal.statistics import Statistics, compute
from ripieno.storage.journal.summaries import Summary, find, is_known, newest, of_owner, require, summarize
from ripieno.storage.journal.uncertain import UncertainLines, has_line
from ripieno.storage.journal.verification import find_anchor, find_break
from ripieno.storage.records import Record

#: The file name of a user's journal in their state folder.
NAME = "journal.sqlite3"
#: Lines read at once, so that readers do not block writers: first few, later at most so many, with so many characters.
_FIRST, _BATCH, _CHARACTERS = 32, 256, 4 * 1024 * 1024
#: Conversations that are summarized at once.
_SUMMARIES = 100
#: Conversations whose ends are remembered, so that a line is written without reading.
_REMEMBERED = 1024

_BODY = Line._fields.index("body")
_Chain = tuple[str, str]
_End = tuple[int, str]


class Journal:
    """The journal in a file of mode 0600, or at the address of a PostgreSQL database; a ``Recorder``.

    Threads and programs may share it.

    In all texts of a record, ``secrets`` of 8 characters or more become fingerprints (``[secret 3f9a41c07b52]``) before
    anything is hashed or written. Their key is in the file ``key``, by default beside the journal's file with the
    suffix ``.key``. Without such a file, as for an address alone, secrets become ``[secret]``.

    ``owner`` limits a look-up to the lines of one user or client; a server names it every time. None means all owners,
    for the person who may read the journal.

    Errors, here and in all methods: ``InputError`` with the reason when the journal cannot be used.
    """

    def __init__(
        self, place: pathlib.Path | str, *, secrets: Iterable[str] = (), key: pathlib.Path | None = None
    ) -> None:
        self.database: Database = database_at(place)
        self._lock = threading.Lock()
        #: The ends of the conversations that were written last. Another program may have gone on.
        self._ends: collections.OrderedDict[_Chain, _End] = collections.OrderedDict()
        self._uncertain = UncertainLines()
        self._outage = Outage()
        try:
            with self.database.using("opened"):
                pass
            if key is None and isinstance(place, pathlib.Path):
                key = place.with_name(place.name + ".key")
            #: Hides secrets as in the lines.
            self.redactor = fingerprints(secrets, key)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The path of its file, or its address without a password."""
        return self.database.name

    @property
    def remote(self) -> bool:
        """Whether an event loop must not wait for ``record``."""
        return self.database.remote

    def close(self) -> None:
        """Closes it. The next use opens it again."""
        self.database.close()

    def record(self, records: Sequence[Record]) -> None:
        """Appends all records in one commit, or none. On return they are on the disk.

        After ``Disconnected`` that is not known. Records that are given again with the next ones are then written once.

        Errors: ``InputError``, for example for a full disk or when the file was deleted, moved or replaced since it was
        opened; ``JsonInvalidity`` for names that are not Unicode; ``Superseded`` if another program has taken a
        conversation that this one had claimed.
        """
        drafts = self._drafts(records)
        fences: dict[_Chain, Fence] = {}
        for record, one in zip(records, drafts, strict=True):
            fence = self.database.fence(record.owner, record.conversation)
            if fence is not None:
                fences[one.conversation, one.owner] = fence
        self._append(drafts, fences)

    def anchor(self) -> Anchor:
        """The present end of the journal. Kept elsewhere, it lets ``verify`` detect truncation."""
        with self.database.snapshot("read", complete=True) as connection:
            return find_anchor(connection)

    def verify(self, anchor: Anchor | None = None, *, progress: Callable[[int], None] | None = None) -> Break | None:
        """The first altered line, or None. ``progress`` receives the number of lines read.

        Detects lines of a conversation that were changed, dropped, inserted or moved. Truncation, and conversations
        that were rewritten from some line on or dropped as a whole (possible for any program that can write the
        database), are detected only with an anchor from after those lines. It shows tampering and does not prevent it.
        """
        with self.database.snapshot("verified") as connection:
            return find_break(self.database, connection, anchor or Anchor(), progress)

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
        filters = {name: self.redactor.text(value) for name, value in wanted.items() if value is not None}
        sought = None if text is None else self.redactor.text(text)
        # The database also matches names of fields; ``says`` filters these out.
        forms = () if sought is None else written(sought)
        conditions = " AND ".join(["number > ?", *(f"{name} = ?" for name in filters)])
        if forms:
            conditions += f" AND ({' OR '.join(['instr(body, ?) > 0'] * len(forms))})"
        query = f"SELECT {COLUMNS} FROM lines WHERE {conditions} ORDER BY number LIMIT ?"
        last, given, count = after or 0, 0, _FIRST
        while limit is None or given < limit:
            with self.database.using("read") as connection:
                rows = connection.execute(query, (last, *filters.values(), *forms, count)).fetchall()
            for row in rows:
                line = Line(*row)
                if sought is None or says(line, sought) is not None:
                    yield line
                    given += 1
                    if given == limit:
                        return
            if len(rows) < count:
                return
            last, size = rows[-1][0], sum(len(row[_BODY] or "") for row in rows)
            count = max(1, min(_BATCH, _CHARACTERS * count // max(size, 1)))

    def export(self, conversation: str | None = None, *, owner: str | None = None) -> Iterator[str]:
        """A conversation, or all lines, as JSONL in printable ASCII, each ending in a newline.

        Each object has all fields of ``Line``, with the body as a value. The digests can be recomputed from its
        canonical JSON.
        """
        return (ascii_json(line.mapping()) + "\n" for line in self.lines(conversation, owner=owner))

    def state_of(self, conversation: str, *, owner: str | None = None) -> tuple[InvocationState, ...]:
        """The state of each call of a conversation, in order of first mention."""
        return fold(self.lines(conversation, owner=owner))

    def conversations(self, *, owner: str | None = None, limit: int | None = None) -> Generator[Summary, None, None]:
        """Summaries of the conversations, the most recently written first; at most ``limit``."""
        with self.database.snapshot("read") as connection:
            found = newest(connection, owner and self.redactor.text(owner))[:limit]
        for start in range(0, len(found), _SUMMARIES):
            page = [(name, whose) for name, whose, _, _ in found[start : start + _SUMMARIES]]
            with self.database.using("read") as connection:
                summaries = summarize(connection, page)
            yield from summaries

    def page(
        self, *, owner: str | None = None, text: str = "", before: int | None = None, limit: int = _SUMMARIES
    ) -> Page:
        """A part of the list of conversations that are not deleted, of those only in which a text was said.

        ``before`` is ``next`` of the part before. It does not hold back what is recorded meanwhile.
        """
        whose = owner and self.redactor.text(owner)
        with self.database.snapshot("read") as connection:
            return read_page(connection, owner=whose, text=self.redactor.text(text), before=before, limit=limit)

    def length(self) -> int:
        """The number of lines."""
        with self.database.snapshot("read") as connection:
            return int(connection.execute("SELECT count(*) FROM lines").fetchone()[0])

    def count(self) -> int:
        """The number of conversations."""
        with self.database.snapshot("read") as connection:
            query = "SELECT count(*) FROM (SELECT DISTINCT conversation, owner FROM lines) AS distinct_ones"
            return int(connection.execute(query).fetchone()[0])

    def summary(self, conversation: str, *, owner: str) -> Summary:
        """The summary of exactly this conversation of an owner. Errors: ``NameAbsence``."""
        name, whose = self.redactor.text(conversation), self.redactor.text(owner)
        with self.database.using("read") as connection:
            require(connection, name, whose)
            return summarize(connection, [(name, whose)])[0]

    def has(self, conversation: str, *, owner: str | None = None) -> bool:
        """Whether it has a conversation of exactly this name."""
        with self.database.using("read") as connection:
            return is_known(connection, self.redactor.text(conversation), owner and self.redactor.text(owner))

    def find(self, beginning: str, *, owner: str | None = None) -> Summary:
        """The conversation that a person means: its identifier equals a text, or is the only one that begins with it.

        Programs name a conversation exactly, as in all other methods: a prefix may be another user's conversation.
        Errors: ``NameAbsence`` for none, ``InputError`` for several.
        """
        return find(self.database, self.redactor.text(beginning), owner and self.redactor.text(owner))

    def restore(self, conversation: str, *, owner: str | None = None, until: int | None = None) -> Restored:
        """The conversation of exactly this name, or its first ``until`` canisters, with the states of its last calls.

        Errors: ``NameAbsence``; ``InputError`` when it was deleted or cannot be cut there.
        """
        name = self.redactor.text(conversation)
        lines = self.lines(name, owner=owner)
        first = list(itertools.islice(lines, 1))
        if not first:
            with self.database.using("read") as connection:
                require(connection, name, owner and self.redactor.text(owner))
            # Another program has begun it meanwhile.
            lines = self.lines(name, owner=owner)
        return restore(name, itertools.chain(first, lines), until=until)

    def restore_end(self, conversation: str, *, owner: str, newest: int) -> Restored:
        """The end of an owner's conversation: from a message of the user on, at least the ``newest`` canisters.

        ``missing`` counts those before, which are not read (10,000 canisters: a twentieth of the time of ``restore``).

        Errors: those of ``restore``; ``InputError`` if the journal does not have the first canisters.
        """
        chain = self.redactor.text(conversation), self.redactor.text(owner)
        with self.database.snapshot("read") as connection:
            begins, usage = find_beginning(connection, chain, newest), usage_of(connection, chain)
        if begins is None:
            restored = self.restore(conversation, owner=owner)
            restored.require_all()
            return restored
        began = self.lines(conversation, owner=owner, after=begins.run - 1, limit=1)
        lines = itertools.chain(began, self.lines(conversation, owner=owner, after=begins.message - 1))
        part = restore(chain[0], lines)
        return dataclasses.replace(part, conversation=part.conversation.replace(usage=usage))

    def fork(self, conversation: str, *, owner: str | None = None, until: int | None = None) -> Conversation:
        """Records a conversation, or its first ``until`` canisters, under a new identifier.

        Errors: those of ``restore``.
        """
        forked, records = self.restore(conversation, owner=owner, until=until).fork()
        self.record(records)
        return forked

    def statistics(self, *, since: str = "", conversation: str | None = None, owner: str | None = None) -> Statistics:
        """Totals of the lines since a time (ISO 8601, UTC), or of one conversation."""
        with self.database.snapshot("read") as connection:
            return compute(connection, since=since, conversation=conversation, owner=owner)

    def delete(self, conversation: str, *, owner: str | None = None, clean: bool = True) -> int:
        """Deletes the bodies of a conversation, and what is beside it while it waits or runs; returns their number.

        Each line keeps its number, conversation, turn, stage, tool, invocation, time and body digest; a line of stage
        ``deleted`` records the deletion. ``verify`` still proves that these lines existed, in this order and at these
        times, and that no other line changed. Of the bodies it can only prove that an exported copy, with its salt, is
        or is not the original. A missing body without such a line is a break.

        The text leaves the files when ``database.clean`` is called at the end, and at the latest with the next
        deletion. Without ``clean``, the caller does that after the last of many.

        Errors: ``NameAbsence`` when there is no such conversation; ``Superseded``.
        """
        name = self.redactor.text(conversation)
        whose = owner and self.redactor.text(owner)
        condition, parameters = of_owner(whose)
        where = f"WHERE conversation = ? AND stage != ? AND body IS NOT NULL AND {condition}"
        given = (name, DELETED, *parameters)
        key = row_key(owner or "", conversation)
        beside, named = ("conversation = ?", key[1:]) if owner is None else ("owner = ? AND conversation = ?", key)
        fence = None if owner is None else self.database.fence(owner, conversation)

        def write() -> int:
            with self._lock:
                with self.database.writing("changed") as connection:
                    if fence is not None:
                        fence.check(connection)
                    require(connection, name, whose)
                    for table in BESIDE:
                        connection.execute(f"DELETE FROM {table} WHERE {beside}", named)
                    query = f"SELECT owner, count(*) FROM lines {where} GROUP BY owner"
                    counts = [(str(one), int(count)) for one, count in connection.execute(query, given).fetchall()]
                    connection.execute(f"UPDATE lines SET body = NULL, salt = NULL {where}", given)
                    lines = self._placed(connection, [draft_deletion(name, count, one) for one, count in counts])
                    insert(connection, lines)
                self._remember(lines)
            return sum(count for _, count in counts)

        bodies = self._outage.retried(self.name, write)
        if clean:
            self.database.clean()
        return bodies

    def _drafts(self, records: Sequence[Record]) -> list[Line]:
        """The lines of records, without secrets. Those of one commit are searched together: most have none."""
        drafts = [draft(record) for record in records]
        texts = (text for one in drafts for text in (one.conversation, one.tool, one.invocation, one.body, one.owner))
        if not self.redactor.suspects(*filter(None, texts)):
            return drafts
        return [draft(record, self.redactor) for record in records]

    def _append(self, drafts: Sequence[Line], fences: Mapping[_Chain, Fence]) -> None:
        """Writes lines at the ends of their conversations, all or none."""
        if not drafts:
            return
        tried: list[Line] = []
        chains = {(one.conversation, one.owner) for one in drafts}

        def write() -> None:
            nonlocal tried
            many = len(drafts) > MOST or (bool(fences) and len(chains) > 1)
            with self._lock:
                with (self.database.writing if many else self.database.using)("written") as connection:
                    if tried and has_line(connection, tried[-1]):
                        return  # The server went away after it had written them.
                    # Before they are sent: a statement that fails may have written them.
                    tried = self._placed(connection, self._uncertain.lacking(connection, drafts))
                    insert(connection, tried, fences)
                self._remember(tried)

        try:
            self._outage.retried(self.name, write)
        except Disconnected:
            self._uncertain.add(tried)
            raise
        self._uncertain.forget(chains)

    def _remember(self, lines: Sequence[Line]) -> None:
        """Keeps the ends of conversations, once their lines are committed: an attempt that fails reads them again."""
        self._ends.update({(one.conversation, one.owner): (one.place, one.digest) for one in lines})
        while len(self._ends) > _REMEMBERED:
            self._ends.popitem(last=False)

    def _placed(self, connection: Connection, drafts: Sequence[Line]) -> list[Line]:
        """The drafts as lines at the ends of their conversations."""
        ends: dict[_Chain, _End] = {}
        lines = list[Line]()
        for one in drafts:
            chain = one.conversation, one.owner
            end = ends.get(chain) or self._ends.pop(chain, None) or end_of(connection, chain)
            line = placed(one, end)
            ends[chain] = line.place, line.digest
            lines.append(line)
        return lines
