"""Removal of folders to which programs have written: of any depth, without permissions, and with links to elsewhere."""

import contextlib
import itertools
import os
import secrets
import stat
from collections import deque

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY: int = getattr(os, "O_PATH", 0)


def empty(folder: int, *, spare: str | None = None) -> None:
    """Removes everything in an open folder except the file ``spare``, as far as possible; raises no ``OSError``.

    Nothing outside is touched: no link is followed, and each step names an entry of an open folder. A folder in a
    folder is first moved to the top, so that no depth is too deep, for the stack or for the descriptors.
    """
    prefix = f"removed-{secrets.token_hex(8)}-"
    moved = (f"{prefix}{number}" for number in itertools.count())
    pending = deque(name for name in _names(folder) if name != spare)
    while pending:
        name = pending.popleft()
        if _unlink(name, folder):
            continue
        with contextlib.suppress(OSError):
            inner = _enter(name, folder)
            try:
                for one in _names(inner):
                    if not _unlink(one, inner):
                        place = next(moved)
                        # A folder that may not be written may not be moved.
                        os.close(_enter(one, inner))
                        os.rename(one, place, src_dir_fd=inner, dst_dir_fd=folder)
                        pending.append(place)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def remove(name: str, folder: int) -> None:
    """Removes a folder in an open folder with everything in it, as far as possible; raises no ``OSError``."""
    with contextlib.suppress(OSError):
        inner = _enter(name, folder)
        try:
            empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def open_folder(path: str) -> int:
    """A descriptor of a folder. Errors: ``OSError``, also for a link."""
    return os.open(path, _FOLDER)


def remove_empty(path: str, workspace: str) -> None:
    """Removes an empty file or folder, and the empty folders above it in the workspace."""
    place = path.rstrip("/")
    while place.startswith(f"{workspace}/"):
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
            return  # A link leads elsewhere.
        try:
            mode = os.lstat(place)
            if stat.S_ISDIR(mode.st_mode):
                os.rmdir(place)
            elif stat.S_ISREG(mode.st_mode) and mode.st_size == 0:
                os.unlink(place)
            else:
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        place = os.path.dirname(place)


def _names(folder: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _unlink(name: str, folder: int) -> bool:
    """Whether it was no folder, and is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _enter(name: str, folder: int) -> int:
    """A descriptor of a folder in a folder, with all permissions for its owner. Errors: ``OSError``."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        if not _PATH_ONLY:
            os.chmod(name, stat.S_IRWXU, dir_fd=folder, follow_symlinks=False)
        else:
            # A descriptor without access cannot be exchanged for a link between the check and the change.
            held = os.open(name, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.chmod(f"/proc/self/fd/{held}", stat.S_IRWXU)
            finally:
                os.close(held)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(inner).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(inner, stat.S_IRWXU)
    except BaseException:
        os.close(inner)
        raise
    return inner
