"""Private files of the user's state, replaced atomically."""

import contextlib
import fcntl
import os
import pathlib
import secrets
import tempfile
from collections.abc import Generator


def make_private(folder: pathlib.Path) -> None:
    """Creates a folder with mode 0700, and those above it that are missing. Errors: ``OSError``."""
    # ``Path.mkdir`` gives its mode to the last folder only.
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def unwritable(folder: pathlib.Path) -> str | None:
    """Why this user can write no file in a folder, which may not exist yet; None if they can. Nothing is created."""
    existing = next(one for one in (folder, *folder.absolute().parents) if os.path.exists(one))
    if not existing.is_dir():
        return f"{existing} is not a folder"
    return None if os.access(existing, os.W_OK | os.X_OK) else f"this user may not write in {existing}"


def replace_private(path: pathlib.Path, data: bytes, *, durable: bool = False) -> None:
    """Atomically replaces a file, with mode 0600. Creates its folder with mode 0700.

    With ``durable``, the file is on the disk on return. Errors: ``OSError``; the old file then stays.
    """
    make_private(path.parent)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Generator[int, None, None]:
    """Holds the lock of a file, which is created if it is missing; yields its descriptor. It ends with its process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def open_private(path: str, flags: int) -> int:
    """An opener for ``open`` that creates files with mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def created(path: pathlib.Path) -> Generator[pathlib.Path, None, None]:
    """Creates a file of mode 0600 under a temporary name first, so that no program opens an incomplete one.

    If another program was first, its file stays. Errors: ``OSError``.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield temporary
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        # SQLite keeps files beside its own.
        for suffix in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def is_locked(path: pathlib.Path) -> bool:
    """Whether anyone has the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # Shared: two that look do not hinder each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock(path: pathlib.Path) -> int | None:
    """The descriptor of a file that this process has locked, or None if another process has the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner may have removed the file: a lock on a removed file excludes no one.
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
