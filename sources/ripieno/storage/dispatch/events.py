"""The events of runs, kept for programs that watch a run of another one, and for some minutes after its end.

They are numbered for each conversation. Secrets are hidden as in the journal. A worker that has lost the claim of its
conversation adds none.
"""

import functools
import hashlib
import json
from collections.abc import Sequence

from ripieno.canisters.events import Event
from ripieno.canisters.serialization import Change, read, write
from ripieno.storage.databases.contract import Database, row_key
from ripieno.storage.dispatch.contract import Submission

#: Seconds for which events are kept.
KEPT = 600.0
#: Events that are read at once.
_MOST = 1_000


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

    def append(self, submission: Submission, after: int, events: Sequence[Event]) -> int:
        """Adds events of a submission after a number, and returns the number of the last one.

        Errors: ``Superseded`` if another program has taken the conversation that this one had claimed.
        """
        owner, conversation = submission.owner, submission.conversation
        key = (*row_key(owner, conversation), submission.identifier)
        values = [
            value
            for place, one in enumerate(events, 1)
            for value in (*key, after + place, json.dumps(write(Event, one, self._hide)))
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

    def after(self, submission: Submission, number: int) -> Sequence[tuple[int, Event]]:
        """The next events of a submission after a number, with their numbers."""
        query = (
            "SELECT number, body FROM events WHERE owner = ? AND conversation = ? AND submission = ? AND number > ? "
            f"ORDER BY number LIMIT {_MOST}"
        )
        key = (*row_key(submission.owner, submission.conversation), submission.identifier)
        with self.database.using("read") as connection:
            rows = connection.execute(query, (*key, number)).fetchall()
        return [(int(row[0]), read(Event, json.loads(row[1]), "event")) for row in rows]

    def forget(self, owner: str, conversation: str) -> None:
        """Deletes the events of a conversation."""
        with self.database.using("written") as connection:
            connection.execute("DELETE FROM events WHERE owner = ? AND conversation = ?", row_key(owner, conversation))

    def clean(self) -> None:
        """Deletes old events."""
        with self.database.using("written") as connection:
            connection.execute("DELETE FROM events WHERE at < now_seconds() - ?", (KEPT,))


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
