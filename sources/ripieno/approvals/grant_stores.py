"""Stores of grants: a database that several processes share, or the memory of one.

A store has only the hashes of tokens: a reader of it cannot use a grant.
"""

import dataclasses
import os
import threading
from typing import Protocol

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database
from ripieno.values import Value

#: Seconds for which an expired grant is kept, so that its refusal can name the reason.
_KEPT = 86_400.0
_COLUMNS = ("conversation", "invocation", "tool", "definition", "arguments", "rules")


class Held(Value, kw_only=True):
    """One grant in a store. ``parts`` are the hashes of its binding; times are seconds since 1970."""

    parts: tuple[str, ...]
    issued: float
    expires: float
    used: float | None = None


class GrantStore(Protocol):
    """Stores grants under the hashes of their tokens. Errors: ``InputError`` when it cannot be read or written."""

    def add(self, key: str, held: Held) -> None:
        """Stores a grant, durably if the store is durable, and drops those that expired long ago."""
        ...

    def find(self, key: str) -> Held | None:
        """The grant under a key."""
        ...

    def use(self, key: str, now: float) -> bool:
        """Marks a grant as used, durably; true for exactly one caller, in all processes that share the store."""
        ...


class MemoryStore:
    """Grants of one process; a forked child has none of them. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._guard = threading.Lock()
        self._process = os.getpid()

    def add(self, key: str, held: Held) -> None:
        if os.getpid() != self._process:
            raise InputError("Grants in memory belong to the process that created their store. Use a DatabaseStore.")
        with self._guard:
            for old in [one for one, other in self._held.items() if other.expires < held.issued - _KEPT]:
                del self._held[old]
            self._held[key] = held

    def find(self, key: str) -> Held | None:
        if os.getpid() != self._process:
            return None
        with self._guard:
            return self._held.get(key)

    def use(self, key: str, now: float) -> bool:
        if os.getpid() != self._process:
            return False
        with self._guard:
            held = self._held.get(key)
            if held is None or held.used is not None:
                return False
            self._held[key] = dataclasses.replace(held, used=now)
            return True


class DatabaseStore:
    """Grants in a database, which threads, processes and machines may share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: str, held: Held) -> None:
        with self._database.writing("written") as connection:
            connection.execute("DELETE FROM grants WHERE expires < ?", (held.issued - _KEPT,))
            connection.execute(
                f"INSERT INTO grants (token, {', '.join(_COLUMNS)}, issued, expires) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, *held.parts, held.issued, held.expires),
            )

    def find(self, key: str) -> Held | None:
        query = f"SELECT {', '.join(_COLUMNS)}, issued, expires, used FROM grants WHERE token = ?"
        with self._database.using("read") as connection:
            row = connection.execute(query, (key,)).fetchone()
        return None if row is None else Held(parts=tuple(row[:6]), issued=row[6], expires=row[7], used=row[8])

    def use(self, key: str, now: float) -> bool:
        with self._database.using("written") as connection:
            query = "UPDATE grants SET used = ? WHERE token = ? AND used IS NULL"
            return connection.execute(query, (now, key)).rowcount == 1
