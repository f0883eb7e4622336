"""SQLite: a file of mode 0600, shared by threads and programs.

A commit is on the disk when it returns (write-ahead log, ``synchronous = FULL``). Neither a killed process nor a power
loss takes an acknowledged line. Deleted content is overwritten.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Connection, Inspection, RowConflict, warn_of_leftovers
from ripieno.storage.databases.subscribers import Subscribers, Wake
from ripieno.storage.databases.tables import CREATE, MIGRATIONS, NEWER, VERSION
from ripieno.storage.files import created, is_locked, lock, make_private

#: "ripj"; distinguishes a journal from another program's file.
_APPLICATION = 0x7269706A
#: How long to wait for other programs that write, in seconds.
_PATIENCE = 10.0
#: How long a cleaning waits for them, in milliseconds.
_CLEANING = 100
#: Seconds between looks for the commits of other programs.
_LOOKS = 0.05
_OTHER = "{path} is not a journal of version {version}. Move it away; a new one is then created."
_UNTRUSTED = "{path} is a link, or other users own or may write it, so it is not used. Move it away."
#: Bytes of the header of a file.
_HEADER = 100
_TYPES = {
    "numbered": "INTEGER PRIMARY KEY",
    "integer": "INTEGER",
    "text": "TEXT",
    "real": "REAL",
    "bytes": "BLOB",
    "strict": " STRICT",
}
#: Closing any descriptor of the file drops the locks that SQLite has on it in this process.
_opening = threading.Lock()
#: Connections of parent processes from before a fork. SQLite forbids any use of them here, even closing.
_abandoned: list[sqlite3.Connection] = []


class SqliteDatabase:
    """The database in one file, which is created with mode 0600 when it is missing. Errors: ``InputError``."""

    remote = False
    gapless = True

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._subscribers = Subscribers(self._listen)

    @property
    def name(self) -> str:
        return str(self.path)

    def inspect(self) -> Inspection:
        server = f"SQLite {sqlite3.sqlite_version}"
        with translated_errors(self.path, "read"):
            try:
                status = self.path.lstat()
            except FileNotFoundError:
                return Inspection(server=server)
            with _opening, self.path.open("rb") as file:
                header = file.read(_HEADER)
            size = sum(one.stat().st_size for one in self.path.parent.glob(f"{self.path.name}*") if one.is_file())
        # https://www.sqlite.org/fileformat2.html#the_database_header. A connection would create files beside it.
        version, mark = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
        problem = "" if _is_trusted(status) else _UNTRUSTED.format(path=self.path)
        if version not in MIGRATIONS or mark != _APPLICATION:
            problem = _version_problem(self.path, mark, version) or problem
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        return Inspection(server=server, version=version, problem=problem, size=size, mode=mode)

    @contextlib.contextmanager
    def using(self, action: str) -> Generator[sqlite3.Connection, None, None]:
        with self._opened(action) as connection:
            changes = connection.total_changes
            yield connection
            if connection.total_changes != changes:
                # Otherwise it may be in a file that is no longer at the path.
                self._place.check()

    @contextlib.contextmanager
    def writing(self, action: str) -> Generator[sqlite3.Connection, None, None]:
        with self._opened(action) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            self._place.check()

    @contextlib.contextmanager
    def snapshot(self, action: str, *, complete: bool = False) -> Generator[sqlite3.Connection, None, None]:
        del complete  # It always is: writers take turns.
        # A new connection has no cached pages that the file no longer has.
        with translated_errors(self.path, action), contextlib.closing(connect(self.path)) as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextlib.contextmanager
    def claimed(
        self, owner: str, conversation: str, lost: Callable[[], None] | None = None
    ) -> Generator[bool, None, None]:
        del lost  # The system's lock stays with its process.
        path = self._claim(owner, conversation)
        with translated_errors(self.path, "locked"):
            make_private(path.parent)
            descriptor = lock(path)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    path.unlink()
                os.close(descriptor)

    def is_claimed(self, owner: str, conversation: str) -> bool:
        with translated_errors(self.path, "read"):
            return is_locked(self._claim(owner, conversation))

    def _claim(self, owner: str, conversation: str) -> pathlib.Path:
        # A digest: applications choose names freely.
        name = json.dumps([owner, conversation])
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.path.with_name(f"{self.path.name}.claims") / digest

    def fence(self, owner: str, conversation: str) -> None:
        """Always None: the system's lock stays with its process."""

    def announce(self, connection: Connection, topic: str) -> None:
        """Does nothing: every commit is noticed."""

    def subscribed(self, topic: str, woken: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        return self._subscribers.subscribed(topic, woken)

    def _listen(self, wake: Wake, ended: threading.Event) -> None:
        """Wakes all after each commit of another connection; one that fails is opened again."""
        while not ended.is_set():
            with contextlib.suppress(InputError, sqlite3.Error), contextlib.closing(connect(self.path)) as connection:
                seen = -1
                while not ended.wait(_LOOKS):
                    version = _pragma(connection, "data_version")
                    if version != seen:
                        seen = version
                        wake(None)
            ended.wait(1.0)

    def damage(self, connection: Connection) -> str | None:
        found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
        return None if found == "ok" else f"The file is damaged: {found}."

    def clean(self) -> None:
        try:
            with translated_errors(self.path, "cleaned"), contextlib.closing(connect(self.path)) as connection:
                # While it waits for those who read, no one writes.
                connection.execute(f"PRAGMA busy_timeout = {_CLEANING}")
                if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    warn_of_leftovers(f"{self.path}-wal", "another one reads or writes the journal")
        except InputError as error:
            warn_of_leftovers(self.name, str(error))

    def close(self) -> None:
        self._subscribers.close()
        with self._lock:
            self._leave_others()
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _opened(self, action: str) -> Generator[sqlite3.Connection, None, None]:
        with self._lock, translated_errors(self.path, action):
            self._leave_others()
            yield self._connection or self._open()

    def _open(self) -> sqlite3.Connection:
        self._connection = connect(self.path)
        self._place = Place(self.path)
        return self._connection

    def _leave_others(self) -> None:
        """After a fork, abandons the parent's connection."""
        if self._process != os.getpid():
            self._process = os.getpid()
            if self._connection is not None:
                _abandoned.append(self._connection)
                self._connection = None


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """Opens the file, which is created with mode 0600 when it is missing. Errors: ``InputError``.

    The connection has read from the file, so that the files beside it exist.
    """
    with translated_errors(path, "opened"), _opening:
        make_private(path.parent)
        try:
            _check_owner(path)
        except FileNotFoundError:
            with created(path) as temporary, contextlib.closing(_open(temporary)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                for statement in CREATE:
                    connection.execute(statement.format_map(_TYPES))
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(contextlib.closing(_open(path)))
            mark, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
            if mark == _APPLICATION and version in MIGRATIONS:
                version = _migrate(connection)
            if problem := _version_problem(path, mark, version):
                raise InputError(problem)
            stack.pop_all()
    return connection


def _check_owner(path: pathlib.Path) -> None:
    """Takes other users' access away. Errors: ``InputError`` if they may have written it; ``OSError``.

    It has approvals, which must be the user's own.
    """
    status = path.lstat()
    if not _is_trusted(status):
        raise InputError(_UNTRUSTED.format(path=path))
    if status.st_mode & 0o077:
        path.chmod(0o600)


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only this user may have written a file."""
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _version_problem(path: pathlib.Path, mark: int, version: int) -> str:
    """Why a file with this mark and version of tables cannot be used; empty if it can."""
    if mark != _APPLICATION or version < VERSION:
        return _OTHER.format(path=path, version=VERSION)
    return "" if version == VERSION else NEWER.format(name=path, version=version, own=VERSION)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> int:
    """Brings an earlier version's tables to the present one, in one commit; returns the version."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another program may have been first.
        while (version := _pragma(connection, "user_version")) in MIGRATIONS:
            for step in MIGRATIONS[version]:
                connection.execute(step.format_map(_TYPES))
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return version


class Place:
    """The files at a database's path when it was opened: itself, its log, and the log's index.

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
        if isinstance(error, sqlite3.IntegrityError) and error.sqlite_errorcode in _CONFLICTS:
            raise RowConflict(str(error)) from error
        raise InputError(
            f"The journal {path} cannot be {action}: {error}. Check its disk and its permissions. "
            "Earlier records are kept."
        ) from error


_CONFLICTS = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)


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
        connection.create_function("now_seconds", 0, time.time)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection
