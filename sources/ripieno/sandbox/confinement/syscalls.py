"""System calls that the standard library lacks. Each failure is an ``OSError`` with the attempted action."""

import ctypes
import errno
import os
import stat
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_PATIENCE = 100

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
#: Numbers from 424 on are the same on every architecture.
OPEN_TREE, MOVE_MOUNT, OPENAT2, MOUNT_SETATTR = 428, 429, 437, 442
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446

PR_SET_DUMPABLE, PR_GET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 3, 22, 38

_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x02, 0x04
_PATH_ONLY: int = getattr(os, "O_PATH", 0o10000000)

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None


def call(what: str, number: int, *arguments: Argument) -> int:
    """A system call by number. Errors: ``OSError`` that begins with ``what``."""
    return _checked(what, int(_LIBC.syscall(ctypes.c_long(number), *(_native(one) for one in arguments))))


def prctl(what: str, option: int, *arguments: Argument) -> int:
    """``prctl``. Errors: ``OSError`` that begins with ``what``."""
    native = [_native(one) for one in arguments]
    native += [ctypes.c_ulong(0)] * (4 - len(native))
    return _checked(what, _LIBC.prctl(ctypes.c_int(option), *native))


def unshare(what: str, flags: int) -> None:
    """``unshare``. Errors: ``OSError`` that begins with ``what``."""
    _checked(what, _LIBC.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """``mount``. Errors: ``OSError`` that names the target."""
    texts = [os.fsencode(one) for one in (source, target, kind)]
    done = _LIBC.mount(*texts, ctypes.c_ulong(flags), os.fsencode(data) or None)
    _checked(f"mounting {kind or source} on {target}", done)


def open_path(path: str) -> int:
    """A descriptor of a place, without read access.

    Errors: ``OSError`` when it is missing or a symbolic link is on the way: a path that was resolved before has
    changed.
    """
    how = structure(os.O_CLOEXEC | _PATH_ONLY, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    for _ in range(_PATIENCE):
        try:
            return call(f"opening {path}", OPENAT2, AT_FDCWD, os.fsencode(path), how, len(how))
        except BlockingIOError:
            continue  # A part was renamed meanwhile; the kernel asks for a retry.
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            return _walk(path)  # Such as in a sandbox of ours, whose filter cannot see the mode in its structure.
    raise BlockingIOError(f"opening {path}: it is renamed constantly")


def _walk(path: str) -> int:
    """As ``open_path``, name by name."""
    flags = _PATH_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    found = os.open("/" if path.startswith("/") else ".", flags | os.O_DIRECTORY)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        try:
            inner = os.open(name, flags, dir_fd=found)
        finally:
            os.close(found)
        found = inner
        if stat.S_ISLNK(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.ELOOP, f"opening {path}: {os.strerror(errno.ELOOP)}")
    return found


def structure(*values: int) -> ctypes.Array[ctypes.c_char]:
    """A structure of 64-bit integers, without padding."""
    return buffer(struct.pack(f"={len(values)}Q", *values))


def buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Bytes with an address."""
    return ctypes.create_string_buffer(data, len(data))


def address(data: ctypes.Array[ctypes.c_char]) -> int:
    """The address of a buffer."""
    return ctypes.addressof(data)


def _native(value: Argument) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
