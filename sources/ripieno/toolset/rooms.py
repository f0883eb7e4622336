"""The file room: opens, lists and writes beneath one directory, and nothing outside it.

What is decided about a file is decided on the descriptor that is used. A file that is written is exchanged
whole: whoever reads it sees the old or the new one.
"""

import contextlib
import dataclasses
import errno
import io
import os
import secrets
import stat
from collections.abc import Generator
from typing import Self

from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault, ValidationFault
from ripieno.toolset.walking import Walk, changed, split

# Without O_NONBLOCK, opening a named pipe would wait for its other end.
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did. Paths are relative to the room's root, without links."""

    path: str
    created: bool
    #: Directories that were made for it, outermost first.
    directories: tuple[str, ...]
    #: Bytes written.
    size: int


class Room:
    """A directory, and what lies beneath it. A context manager.

    Paths are relative to it; an absolute one that lies beneath it, lexically, is taken as relative. Links are
    followed as long as they stay beneath. Every refusal is a ``ToolFault`` that gives the path as it was given:
    ``PermissionFault`` for what may not be touched, ``ResourceFault`` for what is not there or not usable,
    ``ValidationFault`` for what is no path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        root = os.path.abspath(path)
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ResourceFault(
                f"The workspace {root!r} cannot be opened: {error.strerror}.", code="workspace"
            ) from error
        self._bases = (split(root), split(os.path.realpath(root)))

    def close(self) -> None:
        """Closes the root. May be called once."""
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def open_file(self, path: str) -> io.BufferedReader:
        """Opens a regular file for reading. The caller closes it."""
        with self._reach(path) as place:
            _check_regular(_status(place), path)
            descriptor = os.open(place.name, os.O_RDONLY | _SAFELY, dir_fd=place.directory)
            with _closing_on_error(descriptor):
                _check_regular(os.fstat(descriptor), path)
                return os.fdopen(descriptor, "rb")

    @contextlib.contextmanager
    def open_directory(self, path: str) -> Generator[int, None, None]:
        """A descriptor of a directory, for what takes one: ``os.scandir``, or ``dir_fd``. Closed at the end."""
        with self._reach(path) as place:
            status = _status(place)
            if not stat.S_ISDIR(status.st_mode):
                raise ResourceFault(
                    f"{path!r} is not a directory.", code="not_a_directory", suggestion="Read it as a file instead."
                )
            descriptor = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | _SAFELY, dir_fd=place.directory)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def write_file(self, path: str, data: bytes, *, append: bool = False, create_directories: bool = True) -> Written:
        """Writes a file whole, or appends to it.

        A whole file is exchanged atomically and keeps its permissions and, where we may, its owner. Appending
        adds to the file as it stands, so that appenders at the same time lose nothing of each other.

        Never written: through a link as the last name, a file that has other names (hard links), and the files
        that control git and ripieno, whether they exist or not.
        """
        created: list[str] = []
        with self._reach(path, guarded=True, follow=False, created=created if create_directories else None) as place:
            former = _open_former(place)
            if former is None:
                _exchange(place, data, None)
            else:
                try:
                    if append:
                        _append(place, former, data)
                    else:
                        _exchange(place, data, os.fstat(former))
                finally:
                    os.close(former)
            return Written(path=place.true_path, created=former is None, directories=tuple(created), size=len(data))

    @contextlib.contextmanager
    def _reach(
        self, path: str, *, guarded: bool = False, follow: bool = True, created: list[str] | None = None
    ) -> Generator[Walk, None, None]:
        walk = Walk(path, self._root, self._bases, guarded=guarded)
        try:
            walk.go(follow=follow, created=created)
            yield walk
        except OSError as error:
            raise _fault(error, path) from error
        finally:
            walk.close()


def _status(place: Walk) -> os.stat_result:
    try:
        return os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        raise place.missing(place.name) from None


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ResourceFault(
            f"{path!r} is a directory.", code="is_directory", suggestion="List it, or name a file in it."
        )
    if stat.S_ISLNK(status.st_mode):
        raise changed(path)
    if not stat.S_ISREG(status.st_mode):
        raise PermissionFault(
            f"{path!r} is no ordinary file but a pipe, a socket or a device.",
            code="special_file",
            suggestion="Only ordinary files can be read and written.",
        )


def _open_former(place: Walk) -> int | None:
    """The file that is about to be written, open for appending, after all checks; None when there is none."""
    try:
        status = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(place.name, dir_fd=place.directory)
        raise PermissionFault(
            f"{place.path!r} is a link to {target!r}; links are not written through.",
            code="is_link",
            suggestion="Write to the file that it points to.",
        )
    _check_regular(status, place.path)
    descriptor = os.open(place.name, os.O_WRONLY | os.O_APPEND | _SAFELY, dir_fd=place.directory)
    with _closing_on_error(descriptor):
        status = os.fstat(descriptor)
        _check_regular(status, place.path)
        if status.st_nlink > 1:
            raise PermissionFault(
                f"{place.path!r} has {status.st_nlink} names (hard links), of which some may be outside the workspace.",
                code="hard_link",
                suggestion="Write a copy under a new name.",
            )
    return descriptor


def _append(place: Walk, former: int, data: bytes) -> None:
    _write_all(former, data)
    os.fsync(former)
    if os.fstat(former).st_nlink == 0:
        # Somebody exchanged the file: what was added went to the one that is gone.
        raise changed(place.path)


def _exchange(place: Walk, data: bytes, former: os.stat_result | None) -> None:
    """Writes beside the file, and gives the new one its name when it is complete."""
    temporary = f".ripieno-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if former is None else 0o600, dir_fd=place.directory)
    try:
        try:
            _write_all(descriptor, data)
            if former is not None:
                _keep(descriptor, former)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place.directory)
        raise


def _keep(descriptor: int, former: os.stat_result) -> None:
    """Gives the new file the former one's owner and permissions; new content never runs as somebody else."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (former.st_uid, former.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, former.st_uid, former.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(former.st_mode) & 0o777)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def _closing_on_error(descriptor: int) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def _fault(error: OSError, path: str) -> ToolFault:
    """What the system refused, in the words of the path as it was given."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PermissionFault(f"The system does not allow that for {path!r}: {reason}.", code="not_permitted")
    if error.errno == errno.ENAMETOOLONG:
        return ValidationFault(f"{path!r} has a name that is too long.", code="too_long")
    if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        # All of these were looked for before; so they were not so then.
        return changed(path)
    return ResourceFault(f"{path!r} cannot be used: {reason}.", code="system")
