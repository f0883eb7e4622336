"""Facts about a name in an open directory: its kind, whether it may be changed, and its content."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Generator

from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.storage.undo import KEEP_BYTES, State, digest
from ripieno.toolset.workspace.guard import changed
from ripieno.toolset.workspace.walk import Walk

# Without O_NONBLOCK, opening a named pipe would wait for its other end.
SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | SAFELY


def look(directory: int, name: str) -> os.stat_result | None:
    """The status of a name, not following a link; None if it is free."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def status(place: Walk) -> os.stat_result:
    """The status of the file at the end of a walk. Errors: ``ResourceFault`` if there is none."""
    found = look(place.directory, place.name)
    if found is None:
        raise place.missing(place.name)
    return found


def is_same(first: os.stat_result | None, second: os.stat_result) -> bool:
    """Whether both are the same file, under any names."""
    return first is not None and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def mode_of(found: os.stat_result) -> int:
    """The nine permission bits."""
    return stat.S_IMODE(found.st_mode) & 0o777


def close_all(*descriptors: int | None) -> None:
    """Closes the descriptors that are open."""
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def check_regular(found: os.stat_result, path: str) -> None:
    """Errors: ``ToolFault`` for anything but an ordinary file."""
    if stat.S_ISDIR(found.st_mode):
        raise ResourceFault(
            f"{path!r} is a directory.", code="is_directory", suggestion="List it, or name a file in it."
        )
    if stat.S_ISLNK(found.st_mode):
        raise changed(path)
    if not stat.S_ISREG(found.st_mode):
        raise special(path)


def special(path: str) -> PermissionFault:
    """The fault of a pipe, a socket or a device."""
    return PermissionFault(
        f"{path!r} is not an ordinary file but a pipe, a socket or a device.",
        code="special_file",
        suggestion="Only ordinary files can be read and written.",
    )


def check_single(found: os.stat_result, path: str) -> None:
    """Errors: ``PermissionFault`` for a file that has other names."""
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        raise PermissionFault(
            f"{path!r} has {found.st_nlink} names (hard links), of which some may be outside the workspace.",
            code="hard_link",
            suggestion="Write a copy under a new name.",
        )


def check_no_link(found: os.stat_result, place: Walk) -> None:
    """Errors: ``PermissionFault`` for a link."""
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(place.name, dir_fd=place.directory)
        raise PermissionFault(
            f"{place.path!r} is a link to {target!r}; links are not written through.",
            code="is_link",
            suggestion="It leads out of the workspace, where nothing can be changed: use another path."
            if place.leads_out()
            else "Write to the file that it points to.",
        )


def open_single(place: Walk, flags: int) -> int:
    """Opens an ordinary file that has one name. Errors: ``ToolFault``; ``OSError``."""
    found = status(place)
    check_no_link(found, place)
    check_regular(found, place.path)
    descriptor = os.open(place.name, flags | SAFELY, dir_fd=place.directory)
    with closing_on_error(descriptor):
        found = os.fstat(descriptor)
        check_regular(found, place.path)
        check_single(found, place.path)
    return descriptor


def read_within(descriptor: int, limit: int) -> bytes | None:
    """The content of a file, from its beginning; None if it has more than ``limit`` bytes."""
    if os.fstat(descriptor).st_size > limit:
        return None
    pieces: list[bytes] = []
    position = 0
    while position <= limit and (piece := os.pread(descriptor, min(1 << 20, limit + 1 - position), position)):
        pieces.append(piece)
        position += len(piece)
    return None if position > limit else b"".join(pieces)


def file_state(found: os.stat_result, data: bytes | None) -> State:
    """The state of an ordinary file; ``data`` is None where it was not read."""
    size = found.st_size if data is None else len(data)
    return State(kind="file", mode=mode_of(found), digest="" if data is None else digest(data), size=size)


def state_of(directory: int, name: str, found: os.stat_result, path: str) -> State:
    """The state of a name, with the hash of a small file. Errors: ``ToolFault``."""
    if stat.S_ISDIR(found.st_mode):
        return State(kind="directory", mode=mode_of(found))
    if stat.S_ISLNK(found.st_mode):
        return State(kind="link", target=os.readlink(name, dir_fd=directory))
    if not stat.S_ISREG(found.st_mode):
        raise special(path)
    descriptor = os.open(name, os.O_RDONLY | SAFELY, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        check_regular(found, path)
        return file_state(found, read_within(descriptor, KEEP_BYTES))
    finally:
        os.close(descriptor)


def temporary_name() -> str:
    """A free name."""
    return f".ripieno-{secrets.token_hex(8)}.tmp"


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def closing_on_error(descriptor: int) -> Generator[None, None, None]:
    """Closes a descriptor when the block fails."""
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


@contextlib.contextmanager
def explaining(path: str) -> Generator[None, None, None]:
    """Turns the system's errors into ``ToolFault``."""
    try:
        yield
    except OSError as error:
        raise fault(error, path) from error


def fault(error: OSError, path: str) -> ToolFault:
    """The fault for the system's error, with the path as given."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PermissionFault(f"The system does not allow that for {path!r}: {reason}.", code="not_permitted")
    if error.errno == errno.ENAMETOOLONG:
        return ValidationFault(f"{path!r} has a name that is too long.", code="too_long")
    if error.errno in (errno.ENOTEMPTY, errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        # All of these were checked before, so something has changed since.
        return changed(path)
    if error.errno == errno.EEXIST:
        return exists(path)
    if error.errno == errno.EXDEV:
        return ResourceFault(
            f"{path!r} is on another file system, so it cannot be moved at once.",
            code="other_device",
            suggestion="Copy it, and delete the original.",
        )
    return ResourceFault(f"{path!r} cannot be used: {reason}.", code="system")


def exists(path: str) -> ResourceFault:
    """The fault of a name that is taken."""
    return ResourceFault(
        f"{path!r} exists already.",
        code="exists",
        suggestion="Choose another name. To replace it, move or copy with overwrite = true, or use write_file.",
    )
