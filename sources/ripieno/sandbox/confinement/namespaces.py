"""Private namespaces of users, processes, shared memory, mounts and networks.

A kernel may forbid any of them, and a container forbids most. They are entered all at once or not at all, so that a
partial refusal leaves no half-done state.
"""

import os
from collections.abc import Mapping
from typing import Any

from ripieno.sandbox.confinement import syscalls
from ripieno.sandbox.confinement.settings import read

_FLAGS = {"user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "mount": 0x00020000}

#: The namespaces that this process, or its parent before the fork, has entered.
entered: frozenset[str] = frozenset()


def enter(settings: Mapping[str, Any]) -> frozenset[str]:
    """Enters the namespaces of the settings and returns them. With "pid", the next child is an init.

    Errors: ``OSError`` when they are not available.
    """
    global entered  # noqa: PLW0603  a fact of this process, which its children inherit as they inherit the namespaces
    wanted = read(settings)
    entered = frozenset()
    choice = frozenset(wanted.namespaces if wanted.tier == 1 else ()) - ({"net"} if wanted.network else set())
    if choice:
        _unshare(choice)
        entered = choice
    return entered


def _unshare(choice: frozenset[str]) -> None:
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(f"namespaces ({', '.join(sorted(choice))})", sum(_FLAGS[name] for name in choice))
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
        raise OSError(error.errno, f"user namespace: {path} cannot be written: {error.strerror}") from error
