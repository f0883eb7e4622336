"""The file system as a confined process has it: read-only but for its writable folders, with processes of its own.

Only in a mount namespace. It stops what Landlock does not: changing the mode or owner of files outside, and writing
beneath a writable folder to what is protected.
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
#: Since this release of Linux, each process namespace has a limit of its own.
_OWN_LIMIT = (6, 14)
#: The kernel takes no lower one.
_LEAST_PROCESSES = 301


def hide(paths: Iterable[str]) -> None:
    """Makes the mounts of this namespace its own, and empties these paths. Errors: ``OSError``."""
    syscalls.mount("none", "/", "", _RECURSIVE | _PRIVATE)
    for path in paths:
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEV)
        elif os.path.lexists(path):
            _lay(_copy(os.devnull), path)


def arrange(writable: Sequence[str], protected: Iterable[str]) -> None:
    """Makes everything read-only but ``writable``, without what is ``protected`` and exists. After ``hide``.

    Errors: ``OSError`` that says what cannot be mounted.
    """
    folder = os.getcwd()
    # Copies are taken before, and keep what is read-only in them as it is.
    copies = [(path, _copy(path)) for path in sorted(writable, key=len)]
    _freeze(syscalls.AT_FDCWD, "/")
    for path, copy in copies:
        _lay(copy, path)
    held = set(writable)
    for path in filter(None, map(_there, sorted(protected, key=len))):
        for folder_above in _between(writable, path):
            if folder_above not in held:
                # What is mounted somewhere cannot be renamed: else another could be put into its place.
                held.add(folder_above)
                _lay(_copy(folder_above), folder_above)
        if path not in held:
            held.add(path)
            copy = _copy(path)
            _freeze(copy, "")
            _lay(copy, path)
    if os.path.isdir(SHARED_MEMORY):
        syscalls.mount("tmpfs", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEV, "mode=1777,size=25%")
    _return_to(folder)


def show_processes(limit: int | None) -> bool:
    """Mounts a /proc that knows nobody else; whether that is allowed. Only in a process namespace of one's own.

    ``limit`` is for the number of processes in it, where the kernel counts them for each namespace.
    """
    try:
        syscalls.mount("proc", "/proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    except PermissionError:
        return False  # A container that hides parts of /proc allows no other one.
    if limit is not None and _release() >= _OWN_LIMIT:
        with open("/proc/sys/kernel/pid_max", "wb", buffering=0) as file:
            file.write(str(max(limit, _LEAST_PROCESSES)).encode())
    # Whoever is root here may otherwise write settings of the kernel that belong to the whole machine.
    _freeze(syscalls.AT_FDCWD, "/proc")
    return True


def _there(path: str) -> str | None:
    """A path that is there; a file that stands where its folder would be; None when neither is, or a link leads on.

    Paths come resolved: a link is a program's, in place of what was not there, and so not kept.
    """
    for one in (path, os.path.dirname(path)):
        if os.path.lexists(one):
            return one if one == os.path.realpath(one) and (one == path or os.path.isfile(one)) else None
    return None


def _between(writable: Iterable[str], path: str) -> list[str]:
    """The folders above a path that lie beneath a writable one, from the outermost on."""
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
    """Puts a copy over the place that it was taken from."""
    descriptor = syscalls.open_path(path)
    try:
        flags = _EMPTY_FROM | _EMPTY_TO
        syscalls.call(f"mounting {path}", syscalls.MOVE_MOUNT, copy, b"", descriptor, b"", flags)
    finally:
        os.close(descriptor)
        os.close(copy)


def _return_to(folder: str) -> None:
    """Enters the current folder again: what was entered before is the one beneath the new mounts."""
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
