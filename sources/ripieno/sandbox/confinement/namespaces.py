"""Private namespaces of users, processes, shared memory, mounts and networks.

A kernel may forbid any of them, and a container forbids most. They are entered all at once or not at all, so that a
partial refusal leaves no half-done state.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ripieno.sandbox.confinement import syscalls
from ripieno.sandbox.confinement.settings import NAMESPACES, Settings, read

_FLAGS = {"user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "mount": 0x00020000}
#: Errors of a kernel that does not allow it here, or has reached its maximum.
_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC, errno.ENOSYS, errno.EUSERS, errno.ENOMEM)
#: Choices in order; the smaller ones are for kernels that do not allow all.
_CHOICES = (frozenset(NAMESPACES), frozenset(("user", "pid", "ipc", "net")), frozenset(("user", "pid")))

#: The namespaces that this process, or its parent before the fork, has entered.
entered: frozenset[str] = frozenset()


def enter(settings: Mapping[str, Any]) -> frozenset[str]:
    """Enters the namespaces of the settings and returns them. With "pid", the next child is an init.

    Without a choice in the settings, these are as many as the kernel allows, possibly none. Errors: ``OSError`` when
    exactly the chosen ones are not available.
    """
    global entered  # noqa: PLW0603  a fact of this process, which its children inherit as they inherit the namespaces
    wanted = read(settings)
    entered = frozenset()
    if wanted.tier != 1:
        return entered
    last: OSError | None = None
    for choice in _choices(wanted):
        try:
            _unshare(choice)
        except OSError as error:
            if error.errno not in _FORBIDDEN:
                raise
            last = error
        else:
            entered = choice
            return entered
    if wanted.namespaces is not None and last is not None:
        raise OSError(
            last.errno, f"namespaces ({', '.join(sorted(wanted.namespaces))}): {os.strerror(last.errno or 0)}"
        )
    return entered


def _choices(wanted: Settings) -> Iterator[frozenset[str]]:
    if wanted.namespaces is not None:
        choices = [frozenset(wanted.namespaces)]
    else:
        # Without a user namespace, only root may enter them.
        choices = [*_CHOICES, *(choice - {"user"} for choice in _CHOICES if os.geteuid() == 0)]
    for choice in choices:
        useful = choice - {"net"} if wanted.network else choice
        if useful:
            yield useful


def _unshare(choice: frozenset[str]) -> None:
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(sum(_FLAGS[name] for name in choice))
    if "user" not in choice:
        return
    # A process that is not dumpable may not write its own maps. It holds no secrets.
    hidden = syscalls.prctl("dumpable", syscalls.PR_GET_DUMPABLE)
    syscalls.prctl("dumpable", syscalls.PR_SET_DUMPABLE, 1)
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            _write(f"/proc/self/{name}", text)
    finally:
        syscalls.prctl("dumpable", syscalls.PR_SET_DUMPABLE, 1 if hidden == 1 else 0)


def _write(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        # Not an error of ``_FORBIDDEN``: the namespace was entered and is unusable.
        raise OSError(errno.EIO, f"user namespace: {path} cannot be written: {error.strerror}") from error
