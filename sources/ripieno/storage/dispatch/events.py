"""The events of runs, kept for programs that watch a run of another one, and for some minutes after its end.

They are numbered for each conversation. Beside those of the runs are some about them, for programs that show the whole
conversation. Secrets are hidden as in the journal. A worker that has lost the claim of its conversation adds none.
"""

import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from ripieno.canisters import Canister
from ripieno.canisters.events import Event, EventBase, ExecutionBegan, InvocationSealed, ResultReady
from ripieno.canisters.serialization import Change, read, register, write
from ripieno.storage.databases.contract import Database, RowConflict, row_key
from ripieno.storage.dispatch.contract import Submission
from ripieno.values import Value

#: Seconds for which events are kept.
KEPT = 600.0
#: Events that are read at once.
_MOST = 1_000
#: A row if a conversation has an event after one of the outer query.
_LATER = """
    SELECT 1 FROM events AS later
    WHERE later.owner = events.owner AND later.conversation = events.conversation AND later.number > events.number
"""


class StretchBegan(Value, kw_only=True):
    """A worker continues a conversation: the first ``kept`` canisters of its journal, then these ``canisters``.

    It is the first event of a submission. Another one follows where another ``worker`` has taken over.
    """

    kept: int
    canisters: tuple[Canister, ...]
    worker: str = ""


class QuestionAnswered(EventBase, kw_only=True):
    """A question has its answer: ``approve``, ``deny``, ``edit``, or ``result``."""

    invocation: str
    answer: str


class RunFailed(EventBase, kw_only=True):
    """A run ended with an error. ``message`` is for the user."""

    code: str
    message: str


#: What the log has.
Logged: TypeAlias = Event | StretchBegan | QuestionAnswered | RunFailed
#: The events that name a call.
CallEvent: TypeAlias = InvocationSealed | ExecutionBegan | ResultReady
register({StretchBegan: "stretch began", QuestionAnswered: "question answered", RunFailed: "run failed"})


class EventLog:
    """The events of all conversations in one database. ``hide`` hides secrets in texts, bytes and JSON.

    Errors of all methods: ``InputError``.
    """

    def __init__(self, database: Database, hide: Change | None = None) -> None:
        self.database = database
        self._hide = hide

    def last(self, owner: str, conversation: str) -> int:
        """The number of the last event of a conversation; 0 if there is none."""
        query = "SELECT coalesce(max(number), 0) FROM events WHERE owner = ? AND conversation = ?"
        with self.database.using("read") as connection:
            return int(connection.execute(query, row_key(owner, conversation)).fetchone()[0])

    def lasts(self, conversations: Iterable[tuple[str, str]]) -> Sequence[int]:
        """The number of the last event of each conversation, by owner and name."""
        return [self.last(*one) for one in conversations]

    def add(self, submission: Submission, event: Logged, *, after: int | None = None) -> None:
        """Adds an event after all others, also if another program adds one now. ``after``: the last one, if known."""
        while True:
            if after is None:
                after = self.last(submission.owner, submission.conversation)
            try:
                self.append(submission, after, (event,))
            except RowConflict:
                after = None
                continue
            return

    def append(self, submission: Submission, after: int, events: Sequence[Logged]) -> int:
        """Adds events of a submission after a number, and returns the number of the last one.

        Errors: ``Superseded`` if another program has taken the conversation that this one had claimed; ``RowConflict``
        if there are others after this number.
        """
        owner, conversation = submission.owner, submission.conversation
        key = (*row_key(owner, conversation), submission.identifier)
        values = [
            value
            for place, one in enumerate(events, 1)
            for value in (*key, after + place, json.dumps(write(Logged, one, self._hide)))
        ]
        fence = self.database.fence(owner, conversation)
        with self.database.using("written") as connection:
            # One statement, so that a program that is stopped in the middle holds no lock.
            if fence is None:
                connection.execute(_insertion(len(events)), values)
            elif not connection.execute(_insertion(len(events), fence.query), (*fence.parameters, *values)).rowcount:
                raise fence.lost()
            self.database.announce(connection, topic_of(owner, conversation))
        return after + len(events)

    def since(self, owner: str, conversation: str, number: int) -> Sequence[tuple[int, str, Logged]]:
        """The events about a conversation after a number: each with its number, and the identifier of its submission.

        Those of runs are left out, but for their beginnings and ends.
        """
        query = (
            "SELECT number, submission, body FROM events WHERE owner = ? AND conversation = ? AND number > ? "
            "AND body ->> '$.type' IN ('stretch began', 'question answered', 'conduct ended') ORDER BY number"
        )
        with self.database.using("read") as connection:
            rows = connection.execute(query, (*row_key(owner, conversation), number)).fetchall()
        return [(int(row[0]), str(row[1]), read(Logged, json.loads(row[2]), "event")) for row in rows]

    def after(self, submission: Submission, number: int) -> Sequence[tuple[int, Logged]]:
        """The next events of a submission after a number, with their numbers."""
        query = (
            "SELECT number, body FROM events WHERE owner = ? AND conversation = ? AND submission = ? AND number > ? "
            f"ORDER BY number LIMIT {_MOST}"
        )
        key = (*row_key(submission.owner, submission.conversation), submission.identifier)
        with self.database.using("read") as connection:
            rows = connection.execute(query, (*key, number)).fetchall()
        return [(int(row[0]), read(Logged, json.loads(row[1]), "event")) for row in rows]

    def conductor(self, submission: Submission) -> str:
        """The worker that has begun the last stretch of a submission; empty if none has."""
        query = (
            "SELECT body ->> '$.worker' FROM events WHERE owner = ? AND conversation = ? AND submission = ? "
            "AND body ->> '$.type' = 'stretch began' ORDER BY number DESC LIMIT 1"
        )
        key = (*row_key(submission.owner, submission.conversation), submission.identifier)
        with self.database.using("read") as connection:
            found = connection.execute(query, key).fetchone()
        return "" if found is None else str(found[0] or "")

    def calls(self, submission: Submission) -> dict[str, CallEvent]:
        """The last event of each call of a submission, by the identifiers of the calls."""
        found: dict[str, CallEvent] = {}
        number = 0
        while events := self.after(submission, number):
            number = events[-1][0]
            calls = (one for _, one in events if isinstance(one, InvocationSealed | ExecutionBegan | ResultReady))
            found |= {one.invocation.identifier: one for one in calls}
        return found

    def forget(self, owner: str, conversation: str) -> None:
        """Deletes the events of a conversation."""
        with self.database.using("written") as connection:
            connection.execute("DELETE FROM events WHERE owner = ? AND conversation = ?", row_key(owner, conversation))

    def clean(self, running: Collection[str] = ()) -> None:
        """Deletes the events of submissions that have had none for some minutes, but for those that are ``running``.

        The last number of a conversation stays, without a content: who has read it finds what comes later.
        """
        recent = "SELECT submission FROM events WHERE at >= now_seconds() - ?"
        old = f"at < now_seconds() - ? AND submission NOT IN ({recent})"
        if running:
            old += f" AND submission NOT IN ({', '.join(['?'] * len(running))})"
        with self.database.using("written") as connection:
            connection.execute(f"DELETE FROM events WHERE {old} AND EXISTS ({_LATER})", (KEPT, KEPT, *running))
            query = f"UPDATE events SET submission = '', body = '{{}}' WHERE {old} AND submission != ''"
            connection.execute(query, (KEPT, KEPT, *running))


@functools.lru_cache(maxsize=32)
def _insertion(count: int, held: str | None = None) -> str:
    """The statement that inserts events; where the query ``held`` has no row, it inserts none."""
    target = "INSERT INTO events (owner, conversation, submission, number, body, at)"
    row = "(?, ?, ?, ?, ?)" if held is None else "(?::text, ?::text, ?::text, ?::bigint, ?::text)"
    given = f"(VALUES {', '.join([row] * count)}) AS given"
    if held is None:
        return f"{target} SELECT given.*, now_seconds() FROM {given} WHERE true"
    return f"WITH held AS ({held}) {target} SELECT given.*, now_seconds() FROM {given}, held"


def topic_of(owner: str, conversation: str) -> str:
    """The topic of announcements about a conversation."""
    return hashlib.sha256(json.dumps([owner, conversation]).encode()).hexdigest()[:32]
