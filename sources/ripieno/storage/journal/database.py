"""The SQLite file of a journal and the key beside it: creation, opening, and translation of errors.

A commit is on the disk when it returns (write-ahead log, ``synchronous = FULL``). Neither a killed process nor a power
loss takes an acknowledged line. Deleted content is overwritten.

The key is for fingerprints, which replace secrets: equal secrets have equal ones. A fingerprint is an HMAC-SHA256.
Without the key, a guess cannot be verified.
"""

import contextlib
import functools
import hashlib
import hmac
import os
import pathlib
import secrets as randomness
import sqlite3
import threading
from collections.abc import Generator, Iterable

from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.exceptions import InputError
from ripieno.storage.redaction import Redactor

#: "ripj"; distinguishes a journal from another program's file.
_APPLICATION = 0x7269706A
_VERSION = 2
#: How long to wait for other programs that write, in seconds.
_PATIENCE = 10.0
_KEY_BYTES = 32
_SCHEMA = """
CREATE TABLE lines (
    number INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    turn INTEGER NOT NULL,
    stage TEXT NOT NULL,
    tool TEXT NOT NULL,
    invocation TEXT,
    at TEXT NOT NULL,
    body TEXT,
    salt TEXT,
    body_digest TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX lines_of_conversation ON lines (conversation, number);
"""
#: Without owners, as on one person's machine, this index is empty and costs nothing.
_OWNERS = "CREATE INDEX lines_of_owner ON lines (owner, conversation, number) WHERE owner != ''"
#: The steps from each earlier version to the next one. The digests of earlier lines stay valid.
_MIGRATIONS = {1: ("ALTER TABLE lines ADD COLUMN owner TEXT NOT NULL DEFAULT ''", _OWNERS)}
#: Closing any descriptor of the file drops the locks that SQLite has on it in this process.
_opening = threading.Lock()


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """Opens the journal in a file, which is created with mode 0600 when it is missing. Errors: ``InputError``.

    The connection has read from the file, so that the files beside it exist.
    """
    with translated_errors(path, "opened"), _opening:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        except FileNotFoundError:
            with _created(path) as temporary, contextlib.closing(_open(temporary)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_SCHEMA)
                connection.execute(_OWNERS)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(contextlib.closing(_open(path)))
            mark, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
            if mark == _APPLICATION and version in _MIGRATIONS:
                version = _migrate(connection)
            if (mark, version) != (_APPLICATION, _VERSION):
                what = f"{path} is not a journal of version {_VERSION}."
                raise InputError(f"{what} Move it away; a new one is then created.")
            stack.pop_all()
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> int:
    """Brings an earlier version's tables to the present one, in one commit; returns the version."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another program may have been first.
        while (version := _pragma(connection, "user_version")) in _MIGRATIONS:
            for step in _MIGRATIONS[version]:
                connection.execute(step)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return version


class Place:
    """The files at a journal's path when it was opened: itself, its log, and the log's index.

    SQLite keeps all three while a connection is open, so that any other file there is an accident or an attack.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._files = self._identify()

    def check(self) -> None:
        """Errors: ``InputError`` when a file was deleted, moved or replaced since."""
        if self._identify() != self._files:
            raise InputError(
                f"The journal {self._path} was deleted, moved or replaced while this program used it. Nothing more is "
                "recorded. Put its files back, or move them all away for a new journal; then start again."
            )

    def _identify(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(map(_identify, (name := os.fspath(self._path), f"{name}-wal", f"{name}-shm")))


def _identify(name: str) -> tuple[int, int] | None:
    """The device and inode of a file; None where there is none."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def translated_errors(path: pathlib.Path, action: str) -> Generator[None, None, None]:
    """Turns errors of SQLite and the system about a file into ``InputError``. ``action`` is the failed action.

    SQLite's message about a damaged file may have bytes that are not text, which raises another error.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError, OverflowError) as error:
        raise InputError(
            f"The journal {path} cannot be {action}: {error}. Check its disk and its permissions. "
            "Earlier records are kept."
        ) from error


def _open(path: pathlib.Path) -> sqlite3.Connection:
    # The URI requires the file to exist.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _created(path: pathlib.Path) -> Generator[pathlib.Path, None, None]:
    """Creates a file under a temporary name first, so that no program opens an incomplete one."""
    temporary = path.with_name(f".{randomness.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield temporary
        # The link fails when another program was first; that program's file is then used.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def fingerprints(secrets: Iterable[str], key: pathlib.Path) -> Redactor:
    """A redactor that writes fingerprints. Reads or creates the key at the first secret. Errors: ``InputError``."""
    load = functools.cache(_load_key)

    def mark(secret: str) -> str:
        encoded = secret.encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(load(key), encoded, hashlib.sha256).hex()[:12]}]"

    return Redactor(secrets, mark=mark)


def _load_key(path: pathlib.Path) -> bytes:
    try:
        if not path.exists():
            with _created(path) as temporary, temporary.open("wb") as file:
                file.write(randomness.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
        key = read_regular(path)
    except OSError as error:
        raise InputError(f"The key of the journal, {path}, cannot be used: {error.strerror}.") from error
    if len(key) != _KEY_BYTES:
        raise InputError(
            f"The key of the journal, {path}, has {len(key)} bytes instead of {_KEY_BYTES}. "
            "Move it away; a new key is then created, and secrets get other fingerprints than before."
        )
    return key
