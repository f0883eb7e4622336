"""The rows of conversations: their items, in order, and the lock of the response that is in progress.

A conversation expires some time after its last use. An item is found by the digest of its identifier: clients and
models choose those, of any length and with any character.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import digest, encode, parse
from ripieno.storage.databases.contract import Connection
from ripieno.storage.responses.caller_keys import RowCipher
from ripieno.storage.responses.rows import ChainTooLong, ConversationLocked, StoredConversation
from ripieno.storage.responses.store import LEASE, Rows, named

_DEPTH = 512
_MINE = "caller = ? AND identifier = ?"
_ITEMS = "caller = ? AND conversation = ?"
# It can be repeated, if it is not known whether it was written.
_LOCK = f"""
    UPDATE response_conversations SET holder = ?, until = ?, expires = ?
        WHERE {_MINE} AND expires > ? AND (holder IN ('', ?) OR until <= ?)
"""
_ITEM = """
    SELECT {} FROM conversation_items AS one JOIN response_conversations AS two
        ON two.caller = one.caller AND two.identifier = one.conversation
        WHERE one.caller = ? AND one.identifier = ? AND two.expires > ? LIMIT 1
"""
Item = Mapping[str, Any]


class ConversationStore(Rows):
    """The conversations of all callers. Threads may share it. Errors: ``InputError``, as of ``ResponseStore``."""

    def create(self, one: StoredConversation, items: Sequence[Item]) -> None:
        """Writes a new conversation with items, which have identifiers. Errors: ``StoreFull``, ``ChainTooLong``."""
        data = encode(one.body)
        sealed = self.keys.access(one.caller).seal(data, "conversation", one.identifier)
        with self.database.writing("written") as connection:
            self.check_room(connection, one.caller, len(data))
            expires = self.now(connection) + self.limits.seconds
            connection.execute(
                "INSERT INTO response_conversations (caller, identifier, holder, until, expires, size, body) "
                "VALUES (?, ?, '', 0, ?, ?, ?)",
                (named(one.caller), one.identifier, expires, len(data), sealed),
            )
            self._append(connection, one.caller, one.identifier, items)

    def load(self, caller: str, identifier: str) -> StoredConversation | None:
        """The caller's conversation; None if there is none, or it has expired."""
        with self.database.using("read") as connection:
            query = f"SELECT body FROM response_conversations WHERE {_MINE} AND expires > ?"
            found = connection.execute(query, (named(caller), identifier, self.now(connection))).fetchone()
        if found is None:
            return None
        cipher = self.keys.find(caller)
        if cipher is None:
            return None
        body = _read(cipher, found[0], "conversation", identifier)
        return StoredConversation(caller=caller, identifier=identifier, body=body)

    def replace(self, one: StoredConversation) -> bool:
        """Replaces the body of a conversation. False if there is none any more. Errors: ``StoreFull``."""
        data = encode(one.body)
        sealed = self.keys.access(one.caller).seal(data, "conversation", one.identifier)
        with self.database.writing("written") as connection:
            query = f"SELECT size FROM response_conversations WHERE {_MINE}"
            found = connection.execute(query, (named(one.caller), one.identifier)).fetchone()
            # A shorter one is written also for a caller who has too much.
            if found is not None and (more := len(data) - int(found[0])) > 0:
                self.check_room(connection, one.caller, more)
            now = self.now(connection)
            query = f"UPDATE response_conversations SET size = ?, body = ?, expires = ? WHERE {_MINE} AND expires > ?"
            values = (len(data), sealed, now + self.limits.seconds, named(one.caller), one.identifier, now)
            return connection.execute(query, values).rowcount > 0

    def delete(self, caller: str, identifier: str) -> bool:
        """Deletes a conversation and its items. Returns whether it was there."""
        with self.database.writing("written") as connection:
            key = named(caller), identifier
            connection.execute(f"DELETE FROM conversation_items WHERE {_ITEMS}", key)
            return connection.execute(f"DELETE FROM response_conversations WHERE {_MINE}", key).rowcount > 0

    def size(self, caller: str, identifier: str) -> int | None:
        """The bytes of the items of a conversation; None as of ``load``. Errors: ``ChainTooLong``."""
        with self.database.using("read") as connection:
            query = (
                f"SELECT (SELECT coalesce(sum(size), 0) FROM conversation_items WHERE {_ITEMS}) "
                f"FROM response_conversations WHERE {_MINE} AND expires > ?"
            )
            values = (named(caller), identifier, named(caller), identifier, self.now(connection))
            found = connection.execute(query, values).fetchone()
        if found is None:
            return None
        self._bound(int(found[0]))
        return int(found[0])

    def items(self, caller: str, identifier: str) -> Sequence[Item]:
        """The items of a conversation, the oldest first. Errors: ``ChainTooLong``."""
        with self.database.using("read") as connection:
            query = f"SELECT sum(size) FROM conversation_items WHERE {_ITEMS}"
            size = int(connection.execute(query, (named(caller), identifier)).fetchone()[0] or 0)
            self._bound(size)
            query = f"SELECT identifier, body FROM conversation_items WHERE {_ITEMS} ORDER BY number"
            rows = connection.execute(query, (named(caller), identifier)).fetchall()
        cipher = self.keys.find(caller) if rows else None
        if cipher is None:
            return ()
        return [_read(cipher, body, "item", identifier, name) for name, body in rows]

    def item(self, caller: str, name: str) -> Item | None:
        """An item of one of the caller's conversations; None if there is none, or that has expired."""
        with self.database.using("read") as connection:
            query = _ITEM.format("one.conversation, one.body")
            found = connection.execute(query, (named(caller), digest(name), self.now(connection))).fetchone()
        cipher = None if found is None else self.keys.find(caller)
        return None if found is None or cipher is None else _read(cipher, found[1], "item", found[0], digest(name))

    def item_size(self, caller: str, name: str) -> int:
        """The bytes of an item of one of the caller's conversations; 0 if there is none, or that has expired."""
        with self.database.using("read") as connection:
            values = (named(caller), digest(name), self.now(connection))
            found = connection.execute(_ITEM.format("one.size"), values).fetchone()
        return 0 if found is None else int(found[0])

    def append(self, caller: str, identifier: str, items: Sequence[Item]) -> bool:
        """Adds items, which have identifiers. False if there is no conversation any more.

        Errors: ``StoreFull``, ``ChainTooLong``.
        """
        with self.database.writing("written") as connection:
            self.check_room(connection, caller)
            now = self.now(connection)
            # Until the commit, nobody else adds items, whose numbers would be the same.
            query = f"UPDATE response_conversations SET expires = ? WHERE {_MINE} AND expires > ?"
            values = (now + self.limits.seconds, named(caller), identifier, now)
            found = connection.execute(query, values).rowcount > 0
            if found:
                self._append(connection, caller, identifier, items)
            return found

    def remove(self, caller: str, identifier: str, item: str) -> bool:
        """Deletes an item. Returns whether it was there."""
        with self.database.using("written") as connection:
            query = f"DELETE FROM conversation_items WHERE {_ITEMS} AND identifier = ?"
            return connection.execute(query, (named(caller), identifier, digest(item))).rowcount > 0

    def lock(self, caller: str, identifier: str, response: str) -> None:
        """Holds a conversation for one response, as long as ``renew`` is called. Errors: ``ConversationLocked``."""
        with self.database.using("written") as connection:
            now = self.now(connection)
            values = (response, now + LEASE, now + self.limits.seconds, named(caller), identifier, now, response, now)
            if not connection.execute(_LOCK, values).rowcount:
                raise ConversationLocked("Another response of this conversation is in progress. Wait for its end.")

    def hold(self, connection: Connection, caller: str, identifier: str, response: str, seconds: float) -> bool:
        """Lets the hold of a response end in some seconds, if ``renew`` is not called. False if it holds nothing."""
        query = f"UPDATE response_conversations SET until = ? WHERE {_MINE} AND holder = ?"
        values = (self.now(connection) + seconds, named(caller), identifier, response)
        return connection.execute(query, values).rowcount > 0

    def unlock(self, caller: str, identifier: str, response: str) -> None:
        """Ends the hold of a response."""
        with self.database.using("written") as connection:
            self.release(connection, caller, identifier, response)

    def finish(
        self, connection: Connection, caller: str, identifier: str, response: str, items: Sequence[Item]
    ) -> bool:
        """Adds the items of a response to the conversation that it holds, and ends the hold. False if it holds none."""
        held = self.release(connection, caller, identifier, response)
        if held:
            self._append(connection, caller, identifier, items, bounded=False)
        return held

    def release(self, connection: Connection, caller: str, identifier: str, response: str) -> bool:
        """Ends the hold of a response, in a transaction. False if it held nothing."""
        query = f"UPDATE response_conversations SET holder = '', until = 0, expires = ? WHERE {_MINE} AND holder = ?"
        expires = self.now(connection) + self.limits.seconds
        return connection.execute(query, (expires, named(caller), identifier, response)).rowcount > 0

    def _append(
        self, connection: Connection, caller: str, identifier: str, items: Sequence[Item], *, bounded: bool = True
    ) -> None:
        """Adds items in a transaction that has written the row of the conversation."""
        query = f"SELECT max(number), sum(size) FROM conversation_items WHERE {_ITEMS}"
        number, size = connection.execute(query, (named(caller), identifier)).fetchone()
        cipher = self.keys.access(caller)
        rows = [(digest(one["id"]), encode(one)) for one in items]
        if bounded:
            self._bound(int(size or 0) + sum(len(data) for _, data in rows))
        for place, (name, data) in enumerate(rows, int(number or 0) + 1):
            sealed = cipher.seal(data, "item", identifier, name)
            connection.execute(
                "INSERT INTO conversation_items (caller, conversation, number, identifier, size, body) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (caller, conversation, identifier) DO NOTHING",
                (named(caller), identifier, place, name, len(data), sealed),
            )

    def _bound(self, size: int) -> None:
        if size > self.limits.chain:
            raise ChainTooLong(
                f"The conversation has {size} bytes; at most {self.limits.chain} are read. Begin another one."
            )


def changed(one: StoredConversation, **members: Any) -> StoredConversation:
    """A conversation with other members of its body."""
    return dataclasses.replace(one, body={**one.body, **members})


def _read(cipher: RowCipher, body: Any, *place: str | int) -> dict[str, Any]:
    data = cipher.open(bytes(body), *place)
    found: Any = parse(data, max_bytes=max(len(data), 1), max_depth=_DEPTH)
    return dict(found)
