"""The file system of a confined process: read-only except for its writable folders, with a private /proc.

Needs a mount namespace. It covers what Landlock does not: changes of mode or owner of files outside, and writes to
protected paths beneath a writable folder.
"""

import os
from collections.abc import Iterable, Sequence

from ripieno.sandbox.confinement import syscalls

_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC = 1, 2, 4, 8
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
_CLONE = 1
_EMPTY_FROM, _EMPTY_TO = 0x04, 0x40
_ATTRIBUTE_READ_ONLY, _ATTRIBUTE_NO_SUID = 1, 2

SHARED_MEMORY = "/dev/shm"
#: The release of Linux since which each process namespace has its own limit.
_OWN_LIMIT = (6, 14)
#: The lowest limit that the kernel accepts.
_LEAST_PROCESSES = 301


def hide(paths: Iterable[str]) -> None:
    """Makes the mounts of this namespace private, and empties these paths. Errors: ``OSError``."""
    syscalls.mount("none", "/", "", _RECURSIVE | _PRIVATE)
    for path in paths:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEV)
        elif os.path.lexists(path):
            _lay(_copy(os.devnull), path)


def arrange(writable: Sequence[str], protected: Iterable[str], shared: int | None) -> None:
    """Makes everything read-only but ``writable``, without the existing ``protected`` paths. After ``hide``.

    ``shared`` is the most that files in shared memory may have, in bytes.

    Errors: ``OSError`` with the place that cannot be mounted.
    """
    folder = os.getcwd()
    # Copies are taken before the freeze; read-only parts in them stay read-only.
    copies = [(path, _copy(path)) for path in sorted(writable, key=len)]
    _freeze(syscalls.AT_FDCWD, "/")
    for path, copy in copies:
        _lay(copy, path)
    held = set(writable)
    for path in filter(None, map(_there, sorted(protected, key=len))):
        for folder_above in _between(writable, path):
            if folder_above not in held:
                # A mount point cannot be renamed, and so not replaced.
                held.add(folder_above)
                _lay(_copy(folder_above), folder_above)
        if path not in held:
            held.add(path)
            copy = _copy(path)
            _freeze(copy, "")
            _lay(copy, path)
    if os.path.isdir(SHARED_MEMORY):
        syscalls.mount("tmpfs", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEV, f"mode=1777,size={shared or '25%'}")
    _return_to(folder)


def show_processes(limit: int | None) -> bool:
    """Mounts a /proc of this process namespace; False where that is not allowed.

    ``limit`` bounds the number of its processes, where the kernel counts them for each namespace.
    """
    try:
        syscalls.mount("proc", "/proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    except PermissionError:
        return False  # A container that hides parts of /proc allows no new one.
    if limit is not None and _release() >= _OWN_LIMIT:
        with open("/proc/sys/kernel/pid_max", "wb", buffering=0) as file:
            file.write(str(max(limit, _LEAST_PROCESSES)).encode())
    # Otherwise root in here could write kernel settings of the whole machine.
    _freeze(syscalls.AT_FDCWD, "/proc")
    return True


def _there(path: str) -> str | None:
    """The path if it exists, or a file in place of its folder; None for neither, or if a link is on the way.

    Paths are resolved: a program made such a link in place of a missing file, and it is not protected.
    """
    for one in (path, os.path.dirname(path)):
        if os.path.lexists(one):
            return one if one == os.path.realpath(one) and (one == path or os.path.isfile(one)) else None
    return None


def _between(writable: Iterable[str], path: str) -> list[str]:
    """The folders above a path and beneath a writable one, outermost first."""
    above: list[str] = []
    folder = os.path.dirname(path)
    while any(folder.startswith(f"{one}/") for one in writable):
        above.insert(0, folder)
        folder = os.path.dirname(folder)
    return above


def _copy(path: str) -> int:
    descriptor = syscalls.open_path(path)
    try:
        flags = _CLONE | syscalls.AT_EMPTY_PATH | syscalls.AT_RECURSIVE | os.O_CLOEXEC
        return syscalls.call(f"copying the mount of {path}", syscalls.OPEN_TREE, descriptor, b"", flags)
    finally:
        os.close(descriptor)


def _freeze(folder: int, path: str) -> None:
    attributes = syscalls.structure(_ATTRIBUTE_READ_ONLY | _ATTRIBUTE_NO_SUID, 0, 0, 0)
    flags = syscalls.AT_RECURSIVE | (0 if path else syscalls.AT_EMPTY_PATH)
    what = f"making {path or 'a mount'} read-only"
    syscalls.call(what, syscalls.MOUNT_SETATTR, folder, os.fsencode(path), flags, attributes, len(attributes))


def _lay(copy: int, path: str) -> None:
    """Mounts a copy over a place."""
    descriptor = syscalls.open_path(path)
    try:
        flags = _EMPTY_FROM | _EMPTY_TO
        syscalls.call(f"mounting {path}", syscalls.MOVE_MOUNT, copy, b"", descriptor, b"", flags)
    finally:
        os.close(descriptor)
        os.close(copy)


def _return_to(folder: str) -> None:
    """Enters the current folder again, since the process is still beneath the new mounts."""
    before = os.stat(".")
    descriptor = syscalls.open_path(folder)
    try:
        if not os.path.samestat(os.fstat(descriptor), before):
            raise FileNotFoundError(2, f"The folder {folder} was changed while it was being entered")
        os.fchdir(descriptor)
    finally:
        os.close(descriptor)


def _release() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    digits = "".join(character for character in minor if character.isdigit())
    return int(major), int(digits or 0)
