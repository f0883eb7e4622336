"""The rows of responses and of their events. Each look-up is by caller and identifier, so that foreign is unknown."""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import encode, parse
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.responses.caller_keys import CallerKeys, RowCipher, drop_key, keys_beside
from ripieno.storage.responses.rows import ChainBroken, ChainTooLong, StoredResponse, StoreFull, StoreLimits

#: Seconds after which a run whose process does not renew it counts as lost.
LEASE = 15.0
#: The nesting of stored JSON: that of requests, within a response.
_DEPTH = 512
#: The tables with rows of callers.
_TABLES = ("responses", "response_events", "response_conversations", "conversation_items")
_COLUMNS = "identifier, body, status, parent, conversation, background, holder, links, chain, until"
_MINE = "caller = ? AND identifier = ?"
_OPEN = "status IN ('queued', 'in_progress')"
_SAVE = """
    INSERT INTO responses (caller, identifier, parent, conversation, status, background, cancelling, holder, until,
        expires, links, chain, size, body) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (caller, identifier) DO NOTHING
"""
# A run that has lost its lease changes nothing.
_END = f"UPDATE responses SET status = ?, holder = '', chain = ?, size = ?, body = ? WHERE {_MINE} AND holder = ?"
_CHAIN = f"""
    WITH RECURSIVE chain (identifier, parent, body, links) AS (
        SELECT identifier, parent, body, links FROM responses WHERE {_MINE} AND expires > ?
        UNION ALL
        SELECT one.identifier, one.parent, one.body, one.links FROM responses AS one
            JOIN chain ON one.identifier = chain.parent WHERE one.caller = ? AND one.expires > ?
    )
    SELECT identifier, body, links FROM chain ORDER BY links
"""


class Rows:
    """The database of a store: its clock, its ciphers, and the room of a caller. Errors: ``InputError``."""

    def __init__(
        self, database: Database, keys: CallerKeys, limits: StoreLimits, clock: Callable[[], float] | None = None
    ) -> None:
        self.database = database
        self.keys = keys
        self.limits = limits
        self._clock = clock

    def now(self, connection: Connection) -> float:
        """The time, by the clock that all who use the database share."""
        if self._clock is not None:
            return self._clock()
        if self.database.remote:
            return float(connection.execute("SELECT now_seconds()").fetchone()[0])
        return time.time()

    def check_room(self, connection: Connection, caller: str, more: int = 0) -> None:
        """Errors: ``StoreFull`` if a caller has as much as allowed, or would have with ``more`` bytes."""
        rows = size = 0
        for table in ("responses", "conversation_items", "response_conversations"):
            query = f"SELECT count(*), coalesce(sum(size), 0) FROM {table} WHERE caller = ?"
            found = connection.execute(query, (named(caller),)).fetchone()
            rows, size = rows + int(found[0]), size + int(found[1])
        if rows >= self.limits.rows or size + more > self.limits.size:
            raise StoreFull(
                f"{rows} responses and items with {size} bytes are stored for this caller, and no more are allowed. "
                "Delete some, or send store = false."
            )

    def sweep(self) -> int:
        """Deletes all that has expired, except for conversations that are held; returns the number of rows."""
        with self.database.writing("written") as connection:
            now = self.now(connection)
            gone = "SELECT 1 FROM response_conversations AS one WHERE one.caller = conversation_items.caller"
            count = 0
            for table in ("responses", "response_events"):
                count += connection.execute(f"DELETE FROM {table} WHERE expires <= ?", (now,)).rowcount
            query = "DELETE FROM response_conversations WHERE expires <= ? AND until <= ?"
            count += connection.execute(query, (now, now)).rowcount
            orphans = f"DELETE FROM conversation_items WHERE NOT EXISTS ({gone} AND one.identifier = conversation)"
            return count + connection.execute(orphans).rowcount


class ResponseStore(Rows):
    """The responses of all callers. Threads may share it. Errors: ``InputError``, whose message is the operator's,
    except for the classes in ``rows``, whose messages are for callers.
    """

    def chain_size(self, caller: str, parent: str) -> int | None:
        """The bytes of a response and of those that it continues; None as of ``load``. Errors: ``ChainTooLong``."""
        with self.database.using("read") as connection:
            query = f"SELECT links, chain FROM responses WHERE {_MINE} AND expires > ?"
            found = connection.execute(query, (named(caller), parent, self.now(connection))).fetchone()
        if found is None:
            return None
        self._bound(int(found[0]), int(found[1]))
        return int(found[1])

    def begin(self, caller: str, parent: str) -> tuple[Sequence[StoredResponse], int, int]:
        """The responses that a new one continues, the first one first; and the ``links`` and ``chain`` before it.

        Errors: ``ChainBroken``, ``ChainTooLong``; ``StoreFull`` is for ``check_room``.
        """
        with self.database.using("read") as connection:
            now = self.now(connection)
            last = self._load(connection, caller, parent, now)
            if last is None:
                raise ChainBroken(_BROKEN)
            self._bound(last.links, last.chain)
            key = named(caller)
            rows = connection.execute(_CHAIN, (key, parent, now, key, now)).fetchall()
        cipher = self.keys.find(caller)
        if len(rows) != last.links or cipher is None:
            # One of them was deleted, or has expired.
            raise ChainBroken(_BROKEN)
        chain = [
            StoredResponse(
                caller=caller, identifier=row[0], body=_read(cipher, row[1], row[0]), status="", links=row[2]
            )
            for row in rows[:-1]
        ]
        return (*chain, last), last.links, last.chain

    def _bound(self, links: int, chain: int) -> None:
        if links >= self.limits.links or chain > self.limits.chain:
            raise ChainTooLong(
                f"The response continues {links} others with {chain} bytes; at most {self.limits.links} "
                f"and {self.limits.chain} are read. Send a shorter conversation, without previous_response_id."
            )

    def save(self, row: StoredResponse, connection: Connection | None = None) -> bool:
        """Writes a new response, durably. With a ``holder`` it is held until ``LEASE`` seconds after a ``renew``.

        False if it is there: an earlier try has written it, whose acknowledgement was lost.
        """
        if connection is None:
            with self.database.writing("written") as own:
                return self.save(row, own)
        data = encode(row.body)
        sealed = self.keys.access(row.caller).seal(data, "response", row.identifier)
        now = self.now(connection)
        until = now + LEASE if row.holder else 0.0
        place = (named(row.caller), row.identifier, row.parent, row.conversation, row.status, int(row.background))
        rest = (row.holder, until, now + self.limits.seconds, row.links, row.chain + len(data), len(data), sealed)
        return connection.execute(_SAVE, (*place, *rest)).rowcount > 0

    def take(self, connection: Connection, caller: str, identifier: str, holder: str) -> bool:
        """Holds a queued response. False if it is not queued any more."""
        query = (
            f"UPDATE responses SET status = 'in_progress', holder = ?, until = ? WHERE {_MINE} AND status = 'queued'"
        )
        values = (holder, self.now(connection) + LEASE, named(caller), identifier)
        return connection.execute(query, values).rowcount > 0

    def change(self, row: StoredResponse) -> None:
        """Writes the body of a response again that its ``holder`` still holds."""
        data = encode(row.body)
        sealed = self.keys.access(row.caller).seal(data, "response", row.identifier)
        with self.database.using("written") as connection:
            connection.execute(
                f"UPDATE responses SET size = ?, body = ? WHERE {_MINE} AND holder = ?",
                (len(data), sealed, named(row.caller), row.identifier, row.holder),
            )

    def end(self, row: StoredResponse, holder: str, connection: Connection | None = None) -> bool:
        """Writes the end of a held response, and lets its events expire. False if it is not held any more."""
        if connection is None:
            with self.database.writing("written") as own:
                return self.end(row, holder, own)
        data = encode(row.body)
        cipher = self.keys.find(row.caller)
        if cipher is None:
            return False
        sealed = cipher.seal(data, "response", row.identifier)
        key = named(row.caller)
        values = (row.status, row.chain + len(data), len(data), sealed, key, row.identifier, holder)
        if not connection.execute(_END, values).rowcount:
            return False
        connection.execute(
            "UPDATE response_events SET expires = ? WHERE caller = ? AND response = ?",
            (self.now(connection) + self.limits.event_seconds, key, row.identifier),
        )
        self.database.announce(connection, topic_of(row.caller, row.identifier))
        return True

    def size(self, caller: str, identifier: str) -> int:
        """The bytes of the caller's response; 0 if there is none, or it has expired."""
        with self.database.using("read") as connection:
            query = f"SELECT size FROM responses WHERE {_MINE} AND expires > ?"
            found = connection.execute(query, (named(caller), identifier, self.now(connection))).fetchone()
        return 0 if found is None else int(found[0])

    def load(self, caller: str, identifier: str) -> StoredResponse | None:
        """The caller's response; None if there is none, or it has expired."""
        with self.database.using("read") as connection:
            return self._load(connection, caller, identifier, self.now(connection))

    def _load(self, connection: Connection, caller: str, identifier: str, now: float) -> StoredResponse | None:
        query = f"SELECT {_COLUMNS} FROM responses WHERE {_MINE} AND expires > ?"
        found = connection.execute(query, (named(caller), identifier, now)).fetchone()
        if found is None:
            return None
        cipher = self.keys.find(caller)
        if cipher is None:
            return None
        return StoredResponse(
            caller=caller,
            identifier=found[0],
            body=_read(cipher, found[1], found[0]),
            status=found[2],
            parent=found[3],
            conversation=found[4],
            background=bool(found[5]),
            holder=found[6],
            links=int(found[7]),
            chain=int(found[8]),
            lost=bool(found[6]) and float(found[9]) <= now,
        )

    def beginning(self, caller: str, beginning: str) -> tuple[str, int] | None:
        """The caller's response whose identifier has this beginning, of hexadecimal digits: its identifier and bytes.

        None as of ``load``.
        """
        with self.database.using("read") as connection:
            # A range, for the index; foreign and unknown take the same statement.
            query = (
                "SELECT identifier, size FROM responses WHERE caller = ? AND identifier >= ? AND identifier < ? "
                "AND expires > ? LIMIT 1"
            )
            values = (named(caller), beginning, f"{beginning}g", self.now(connection))
            found = connection.execute(query, values).fetchone()
        return None if found is None else (found[0], int(found[1]))

    def delete(self, caller: str, identifier: str) -> bool:
        """Deletes a response and its events. Returns whether it was there."""
        with self.database.writing("written") as connection:
            key = named(caller), identifier
            connection.execute("DELETE FROM response_events WHERE caller = ? AND response = ?", key)
            return connection.execute(f"DELETE FROM responses WHERE {_MINE}", key).rowcount > 0

    def cancel(self, caller: str, identifier: str) -> None:
        """Asks the process that holds a response to end it."""
        with self.database.using("written") as connection:
            connection.execute(
                f"UPDATE responses SET cancelling = 1 WHERE {_MINE} AND {_OPEN}", (named(caller), identifier)
            )

    def queued(self, after: float, seconds: float) -> tuple[Sequence[tuple[str, str]], float]:
        """The callers and identifiers of responses that have been queued for some ``seconds``, or longer.

        Those of an earlier look are left out, if ``after`` is the mark that it has returned with them.
        """
        with self.database.using("read") as connection:
            mark = self.now(connection) + self.limits.seconds - seconds
            query = "SELECT caller, identifier FROM responses WHERE status = 'queued' AND expires > ? AND expires <= ?"
            rows = connection.execute(query, (after, mark)).fetchall()
        return [(json.loads(row[0]), row[1]) for row in rows], mark

    def renew(self, holder: str, responses: Collection[str], holding: Collection[str]) -> Mapping[str, bool]:
        """Renews those of these responses that a process still holds, and the conversations that others hold.

        What it does not name is lost with its lease. Returns the responses that it still holds, and whether it is to
        end each.
        """
        found: Sequence[Any] = ()
        with self.database.using("written") as connection:
            until = self.now(connection) + LEASE
            if responses:
                mine = f"holder = ? AND identifier IN ({_places(responses)})"
                connection.execute(f"UPDATE responses SET until = ? WHERE {mine}", (until, holder, *responses))
                query = f"SELECT identifier, cancelling FROM responses WHERE {mine}"
                found = connection.execute(query, (holder, *responses)).fetchall()
            if holding:
                # That of a response that was queued meanwhile lasts longer.
                mine = f"holder IN ({_places(holding)}) AND until < ?"
                connection.execute(
                    f"UPDATE response_conversations SET until = ? WHERE {mine}", (until, *holding, until)
                )
        return {str(row[0]): bool(row[1]) for row in found}

    def holds(self, connection: Connection, caller: str, identifier: str, holder: str) -> bool:
        """Whether a response has this holder. Until the end of the transaction, no other one ends it."""
        query = f"UPDATE responses SET holder = holder WHERE {_MINE} AND holder = ?"
        return connection.execute(query, (named(caller), identifier, holder)).rowcount > 0

    def has_lost(self, connection: Connection, caller: str, identifier: str, holder: str) -> bool:
        """Whether this holder has lost a response. Until the end of the transaction, it does not renew it."""
        query = f"UPDATE responses SET holder = holder WHERE {_MINE} AND holder = ? AND until <= ?"
        values = (named(caller), identifier, holder, self.now(connection))
        return connection.execute(query, values).rowcount > 0

    def append(self, connection: Connection, caller: str, identifier: str, first: int, events: Sequence[bytes]) -> None:
        """Writes events of a response, of which the first one has the number ``first``, in a transaction of its holder.

        It can be repeated, also with more events, if it is not known whether they were written.
        """
        cipher = self.keys.find(caller)
        if cipher is not None:
            sealed = cipher.seal(b"".join(events), "events", identifier, first)
            last, expires = first + len(events) - 1, self.now(connection) + self.limits.seconds
            connection.execute(
                "INSERT INTO response_events (caller, response, first, last, expires, body) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (caller, response, first) DO UPDATE SET last = excluded.last, body = excluded.body",
                (named(caller), identifier, first, last, expires, sealed),
            )
            self.database.announce(connection, topic_of(caller, identifier))

    def has_events(self, caller: str, identifier: str) -> bool:
        """Whether events of a response are stored."""
        with self.database.using("read") as connection:
            query = "SELECT 1 FROM response_events WHERE caller = ? AND response = ? AND expires > ? LIMIT 1"
            values = (named(caller), identifier, self.now(connection))
            return connection.execute(query, values).fetchone() is not None

    def next_event(self, connection: Connection, caller: str, identifier: str) -> int | None:
        """The number of the next event of a response; None if its events are not stored."""
        query = "SELECT max(last) FROM response_events WHERE caller = ? AND response = ?"
        found = connection.execute(query, (named(caller), identifier)).fetchone()[0]
        return None if found is None else int(found) + 1

    def state(self, caller: str, identifier: str) -> tuple[str, bool] | None:
        """The status of a response, and whether its process has ended; None as of ``load``."""
        with self.database.using("read") as connection:
            now = self.now(connection)
            query = f"SELECT status, holder, until FROM responses WHERE {_MINE} AND expires > ?"
            found = connection.execute(query, (named(caller), identifier, now)).fetchone()
        return None if found is None else (found[0], bool(found[1]) and float(found[2]) <= now)

    def events(self, caller: str, identifier: str, after: int) -> Sequence[tuple[int, bytes]]:
        """The next batches of events with numbers over ``after``: the number of the first of each, and the bytes."""
        with self.database.using("read") as connection:
            query = (
                "SELECT first, body FROM response_events WHERE caller = ? AND response = ? AND last > ? "
                "AND expires > ? ORDER BY first LIMIT 100"
            )
            rows = connection.execute(query, (named(caller), identifier, after, self.now(connection))).fetchall()
        cipher = self.keys.find(caller) if rows else None
        if cipher is None:
            return ()
        return [(int(first), cipher.open(bytes(body), "events", identifier, int(first))) for first, body in rows]


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


_BROKEN = "The previous response is not stored here, or one that it continues is not. Send the whole conversation."


def forget(database: Database, caller: str) -> bool:
    """Erases all of a caller: the key first, so that no copy can be read. Returns whether there was anything."""
    keys = keys_beside(database)
    found = drop_key(keys, caller)
    with database.writing("written") as connection:
        for table in _TABLES:
            found = connection.execute(f"DELETE FROM {table} WHERE caller = ?", (named(caller),)).rowcount > 0 or found
    for one in {id(keys): keys, id(database): database}.values():
        one.clean()
    return found


def count_answered(database: Database, caller: str) -> int:
    """The number of a caller's responses that a process answers now."""
    query = f"SELECT count(*) FROM responses WHERE caller = ? AND {_OPEN} AND holder != '' AND until > now_seconds()"
    with database.using("read") as connection:
        return int(connection.execute(query, (named(caller),)).fetchone()[0])


def callers_in(database: Database) -> Sequence[tuple[str, int, int]]:
    """The callers with stored responses, the number of these, and their bytes."""
    with database.using("read") as connection:
        query = "SELECT caller, count(*), sum(size) FROM responses GROUP BY caller ORDER BY caller"
        return [(json.loads(row[0]), int(row[1]), int(row[2])) for row in connection.execute(query).fetchall()]


def topic_of(caller: str, identifier: str) -> str:
    """The topic of announcements about a response."""
    return hashlib.sha256(json.dumps(["response", caller, identifier]).encode()).hexdigest()[:32]


def named(caller: str) -> str:
    """In ASCII: databases refuse U+0000 and half a surrogate pair."""
    return json.dumps(caller)


def _read(cipher: RowCipher, body: Any, identifier: str) -> dict[str, Any]:
    data = cipher.open(bytes(body), "response", identifier)
    found: Any = parse(data, max_bytes=len(data), max_depth=_DEPTH)
    return dict(found)
