"""Keys of callers: each caller's rows are encrypted with a random key, which the operator's secret wraps.

Who reads the database without the secret reads no content. Dropping a caller's key makes all of that caller's rows
unreadable, in backups too, if these do not contain the key. Therefore keys are apart: in a file of their own beside
SQLite's, and in the table ``caller_keys`` of PostgreSQL, which a dump leaves out with ``--exclude-table-data``.
"""

import hashlib
import hmac
import json
import os
import shlex

from ripieno.exceptions import InputError
from ripieno.jsonvalues import canonical
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.databases.sqlite import SqliteDatabase

#: The file of the keys beside a SQLite database.
KEYS_NAME = "caller-keys.sqlite3"
_PURPOSE = "ripieno responses 1"
_NONCE = 12
_BYTES = 32


class RowCipher:
    """Encrypts and decrypts the rows of one caller (AES-256-GCM), each bound to its caller, kind and identifiers."""

    def __init__(self, caller: str, key: bytes) -> None:
        # Imported late: only a gateway with a store needs it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._caller = caller
        self._cipher = AESGCM(key)

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """The encrypted form of the content of a row at this place."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, self._bound(place))

    def open(self, sealed: bytes, *place: str | int) -> bytes:
        """The content of a row. Errors: ``InputError`` if it is not as it was written, or from another place."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], self._bound(place))
        except (InvalidTag, ValueError):
            raise InputError(
                "A stored response was changed in the database, or belongs to another caller or place. It is not used."
            ) from None

    def _bound(self, place: tuple[str | int, ...]) -> bytes:
        return canonical([_PURPOSE, self._caller, *place])


class CallerKeys:
    """The keys of all callers, in a database. ``secret`` is the operator's, the same in all processes.

    A key is read for each use and never cached: a dropped one is used no more from that moment on.
    """

    def __init__(self, database: Database, secret: bytes) -> None:
        self.database = database
        self._wrapping = hmac.digest(secret, _PURPOSE.encode(), hashlib.sha256)

    @classmethod
    def beside(cls, database: Database, secret: bytes) -> "CallerKeys":
        """The keys for the rows of a database."""
        return cls(keys_beside(database), secret)

    def find(self, caller: str) -> RowCipher | None:
        """The cipher of a caller; None without a key. Errors: ``InputError`` if the secret is another one."""
        with self.database.using("read") as connection:
            found = connection.execute(_FIND, (json.dumps(caller),)).fetchone()
        return None if found is None else self._unwrap(caller, bytes(found[0]))

    def access(self, caller: str) -> RowCipher:
        """The cipher of a caller, with a new key if there is none. Errors: as those of ``find``."""
        found = self.find(caller)
        if found is not None:
            return found
        wrapped = RowCipher(caller, self._wrapping).seal(os.urandom(_BYTES), "key")
        with self.database.using("written") as connection:
            connection.execute(
                "INSERT INTO caller_keys (caller, wrapped) VALUES (?, ?) ON CONFLICT (caller) DO NOTHING",
                (json.dumps(caller), wrapped),
            )
        # Another process may have been first.
        return self.find(caller) or self.access(caller)

    def check(self) -> None:
        """Errors: ``InputError`` if the secret is not that of all stored keys."""
        with self.database.using("read") as connection:
            found = connection.execute("SELECT caller, wrapped FROM caller_keys ORDER BY caller").fetchall()
        for caller, wrapped in found:
            self._unwrap(json.loads(caller), bytes(wrapped))

    def _unwrap(self, caller: str, wrapped: bytes) -> RowCipher:
        try:
            return RowCipher(caller, RowCipher(caller, self._wrapping).open(wrapped, "key"))
        except InputError:
            raise InputError(
                f"The responses of {caller or 'callers without a key'} were stored under another secret of [gateway]. "
                f"Use that secret again, or erase them: ripieno responses forget {shlex.quote(caller)}"
            ) from None


_FIND = "SELECT wrapped FROM caller_keys WHERE caller = ?"


def keys_beside(database: Database) -> Database:
    """The database of the keys for the rows of another one."""
    if isinstance(database, SqliteDatabase):
        return database_at(database.path.with_name(KEYS_NAME))
    return database


def callers_with_keys(database: Database) -> frozenset[str]:
    """The callers that have a key for their rows of a database. Creates nothing."""
    keys = keys_beside(database)
    if isinstance(keys, SqliteDatabase) and not keys.path.exists():
        return frozenset()
    with keys.using("read") as connection:
        return frozenset(json.loads(caller) for (caller,) in connection.execute("SELECT caller FROM caller_keys"))


def drop_key(keys: Database, caller: str) -> bool:
    """Deletes a caller's key. Needs no secret. Returns whether there was one."""
    with keys.using("written") as connection:
        return connection.execute("DELETE FROM caller_keys WHERE caller = ?", (json.dumps(caller),)).rowcount > 0
