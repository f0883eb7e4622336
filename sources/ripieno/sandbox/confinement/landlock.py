"""Landlock: the kernel irrevocably refuses a process other paths, TCP and signals than the granted ones.

Rights are restricted as far as the kernel knows them (its ABI).
"""

import errno
import functools
import os
import stat
import struct
from collections.abc import Iterable, Mapping

from ripieno.sandbox.confinement import syscalls

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
#: Never granted: creating block and character devices, and sockets with a name.
_REFUSED = 1 << 6 | 1 << 9 | 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
#: Rights that a rule about a file may grant.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
#: Rights over files by their first ABI: 1, then rename and link, truncate, ioctl, connecting to a socket.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15, 9: 1 << 16}
_TCP, _TCP_ABI = 0b11, 4
#: Abstract sockets and signals.
_SCOPES, _SCOPES_ABI = 0b11, 6
_PATH_BENEATH = 1
_VERSION = 1

_DEVICES = {"/dev/null": True, "/dev/zero": True, "/dev/full": True, "/dev/random": False, "/dev/urandom": False}


@functools.cache
def abi() -> int:
    """The version of the kernel's Landlock; 0 when there is none."""
    try:
        return syscalls.call("Landlock", syscalls.LANDLOCK_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def make_rules(readable: Iterable[str], *, network: bool) -> int:
    """A descriptor of rules that allow these paths, a few devices, and, with ``network``, TCP.

    Errors: ``OSError`` when Landlock or one of the paths is missing.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.ENOSYS, "Landlock: the kernel has none, or it is switched off")
    handled = _handled()
    attributes = [handled]
    if version >= _TCP_ABI:
        attributes.append(0 if network else _TCP)
    if version >= _SCOPES_ABI:
        attributes.append(_SCOPES)
    structure = syscalls.structure(*attributes)
    ruleset = syscalls.call("Landlock", syscalls.LANDLOCK_CREATE_RULESET, structure, len(structure), 0)
    try:
        rules: Mapping[str, int] = {
            **dict.fromkeys(readable, _READ),
            **{path: _READ_FILE | (_WRITE_FILE if writes else 0) for path, writes in _DEVICES.items()},
        }
        for path, rights in rules.items():
            _grant(ruleset, path, rights & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def restrict(ruleset: int, writable: Iterable[str]) -> None:
    """Restricts this process to the rules, plus ``writable``. Needs ``no_new_privs``. Errors: ``OSError``."""
    for path in writable:
        _grant(ruleset, path, _handled() & ~_REFUSED)
    syscalls.call("Landlock", syscalls.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _handled() -> int:
    return sum(rights for since, rights in _RIGHTS.items() if abi() >= since)


def _grant(ruleset: int, path: str, rights: int) -> None:
    descriptor = syscalls.open_path(path)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = syscalls.buffer(struct.pack("=Qi", rights, descriptor))
        syscalls.call(f"Landlock, {path}", syscalls.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
