"""The SQLite file of a journal: made as a whole, opened, and how its errors are said.

A commit is on the disk when it returns (write-ahead log, ``synchronous = FULL``), so neither a killed process nor a
lost machine takes an acknowledged line. What is deleted is overwritten.
"""

import contextlib
import os
import pathlib
import secrets
import sqlite3
import threading
from collections.abc import Generator

from ripieno.exceptions import InputError

#: "ripj", so that another program's file is not taken for a journal.
_APPLICATION = 0x7269706A
_VERSION = 1
#: How long to wait for other programs that write, in seconds.
_PATIENCE = 10.0
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
    digest TEXT NOT NULL
) STRICT;
CREATE INDEX lines_of_conversation ON lines (conversation, number);
"""
#: Closing any descriptor of the file drops the locks that SQLite has on it in this process.
_opening = threading.Lock()


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """A connection to the journal in a file, which is made, for its owner only, when there is none.

    Errors: ``InputError``.
    """
    with said(path, "opened"), _opening:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        except FileNotFoundError:
            _make(path)
        connection = _open(path)
        try:
            marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        except BaseException:
            connection.close()
            raise
    if marks != [_APPLICATION, _VERSION]:
        connection.close()
        raise InputError(f"{path} is no journal of version {_VERSION}. Move it away, and a new one is made.")
    return connection


@contextlib.contextmanager
def said(path: pathlib.Path, what: str) -> Generator[None, None, None]:
    """Says SQLite's and the system's errors about a file as ``InputError``. ``what`` is what was to be done with it.

    Of a damaged file, SQLite's message may have bytes that are no text, which raises another error.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError, OverflowError) as error:
        raise InputError(
            f"The journal {path} cannot be {what}: {error}. Look at its disk and its permissions; "
            "what was recorded before is kept."
        ) from error


def _open(path: pathlib.Path) -> sqlite3.Connection:
    # URIs name the file as one that must exist.
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


def _make(path: pathlib.Path) -> None:
    """Makes the file under another name first: nobody ever opens half of one."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with contextlib.closing(_open(temporary)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        # A link fails where another program was first, and then that one's file counts.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)
