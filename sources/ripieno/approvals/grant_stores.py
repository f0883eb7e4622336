"""Stores of grants: a file that several processes share, or the memory of one.

A store has only the hashes of tokens: a reader of it cannot use a grant.
"""

import contextlib
import dataclasses
import os
import pathlib
import sqlite3
import stat
import threading
from collections.abc import Generator
from typing import Protocol

from ripieno.exceptions import InputError

#: Seconds for which an expired grant is kept, so that its refusal can name the reason.
_KEPT = 86_400.0
#: Seconds to wait for other processes.
_PATIENCE = 30.0
_COLUMNS = ("conversation", "invocation", "tool", "definition", "arguments", "rules")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Held:
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
            raise InputError("Grants in memory belong to the process that created their store. Use a FileStore.")
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


class FileStore:
    """Grants in an SQLite file in the user's state, readable only by the user. Threads and processes may share it.

    Every access opens the file again, so that a process may fork at any time. The first grant creates the file.
    """

    def __init__(self, state: pathlib.Path) -> None:
        self.path = state / "approvals" / "grants.sqlite3"

    def add(self, key: str, held: Held) -> None:
        with self._opened(make=True) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM grants WHERE expires < ?", (held.issued - _KEPT,))
            connection.execute(
                f"INSERT INTO grants (key, {', '.join(_COLUMNS)}, issued, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, *held.parts, held.issued, held.expires),
            )

    def find(self, key: str) -> Held | None:
        if not self.path.exists():
            return None
        with self._opened() as connection:
            row = connection.execute(
                f"SELECT {', '.join(_COLUMNS)}, issued, expires, used FROM grants WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        *parts, issued, expires, used = row
        return Held(parts=tuple(parts), issued=issued, expires=expires, used=used)

    def use(self, key: str, now: float) -> bool:
        if not self.path.exists():
            return False
        with self._opened() as connection, connection:
            changed = connection.execute("UPDATE grants SET used = ? WHERE key = ? AND used IS NULL", (now, key))
            return changed.rowcount == 1

    @contextlib.contextmanager
    def _opened(self, *, make: bool = False) -> Generator[sqlite3.Connection, None, None]:
        try:
            self._check(make=make)
            with contextlib.closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as connection:
                # A used grant must stay used after a loss of power.
                connection.execute("PRAGMA synchronous = EXTRA")
                if make:
                    columns = ", ".join(f"{name} TEXT NOT NULL" for name in _COLUMNS)
                    connection.execute(
                        f"CREATE TABLE IF NOT EXISTS grants (key TEXT PRIMARY KEY, {columns}, "
                        "issued REAL NOT NULL, expires REAL NOT NULL, used REAL) WITHOUT ROWID"
                    )
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"The approvals in {self.path} cannot be read or written: {error}.") from error

    def _check(self, *, make: bool) -> None:
        """Creates the file with mode 0600; refuses a link, and a file that other users own or may access."""
        if make:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise InputError(f"{self.path} is not a file of this user and is not used. Delete it.")
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise InputError(f"Others may read or write {self.path}, so it is not used. Delete it.")
        finally:
            os.close(descriptor)
