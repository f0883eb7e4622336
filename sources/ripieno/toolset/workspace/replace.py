"""Writes a file: a new one, a whole new content, or more at its end."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable

from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import KEEP_BYTES, State, Step, digest
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.guard import changed
from ripieno.toolset.workspace.syscalls import exchange, rename_new
from ripieno.toolset.workspace.transaction import ReversibleOperation, Site, discard
from ripieno.toolset.workspace.walk import Walk

#: Exchanges at most with another program that replaces the file at the same time.
_ATTEMPTS = 100
_HOLD = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
#: A content, or a function of the former one: None if there is no file, or it is too large to be read.
Content = bytes | Callable[[bytes | None], bytes]


class Replace(ReversibleOperation):
    """Writes a whole file, or appends to it.

    A whole file is exchanged atomically and keeps its permissions and, if allowed, its owner. ``new`` refuses an
    existing file, ``existing`` a missing one. A function as ``content`` is called while no other ``Workspace`` changes
    the file; another program's change meanwhile is a conflict, and stays.
    """

    def __init__(
        self,
        path: str,
        content: Content,
        *,
        append: bool = False,
        new: bool = False,
        existing: bool = False,
        create_directories: bool = True,
        mode: int | None = None,
    ) -> None:
        super().__init__(path)
        self.size = 0
        self.is_new = False
        self._content = content
        self._append = append
        self._new = new
        self._existing = existing
        self._create = create_directories
        self._mode = mode
        self._former: int | None = None
        self._before: bytes | None = None
        self._temporary = ""
        self._laid: int | None = None

    def prepare(self, site: Site) -> None:
        created = self.created if self._create else None
        unless = "" if self._existing else "create_directories = true"
        self._walk = walk = site.walk(self.path, created=created, unless=unless)
        former = None
        if entries.look(walk.directory, walk.name) is not None:
            former = self._open(walk)
        elif self._existing:
            raise walk.missing(walk.name)
        self.is_new = former is None
        data = self._content if isinstance(self._content, bytes) else self._content(self._before)
        self.size = len(data)
        self._append = self._append and former is not None
        mode = 0
        if self._append:
            self._content = data
        else:
            mode = self._lay(walk, data, former)
        self._note(site, walk, data, former, mode)

    def _open(self, walk: Walk) -> os.stat_result:
        """Opens the existing file, after all checks, and reads it if it is readable and not too large."""
        reading = True
        try:
            self._former = entries.open_single(walk, os.O_RDWR | os.O_APPEND)
        except PermissionError:
            self._former = entries.open_single(walk, os.O_WRONLY | os.O_APPEND)
            reading = False
        if self._new:
            raise entries.exists(self.path)
        if reading:
            self._before = entries.read_within(self._former, KEEP_BYTES)
        return os.fstat(self._former)

    def _lay(self, walk: Walk, data: bytes, former: os.stat_result | None) -> int:
        """Writes the content beside the file; its permissions."""
        self._temporary = entries.temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # A private file stays private until the new one has its owner and permissions.
        mode = 0o600 if former is not None else 0o666
        self._laid = descriptor = os.open(self._temporary, flags, mode, dir_fd=walk.directory)
        entries.write_all(descriptor, data)
        if former is not None:
            _keep(descriptor, former)
        if self._mode is not None:
            os.fchmod(descriptor, self._mode & 0o777)
        os.fsync(descriptor)
        return entries.mode_of(os.fstat(descriptor))

    def _note(self, site: Site, walk: Walk, data: bytes, former: os.stat_result | None, mode: int) -> None:
        self.note_directories()
        before = None if former is None else entries.file_state(former, self._before)
        after = State(kind="file", mode=mode, digest=digest(data), size=len(data))
        if self._append and before is not None:
            whole = "" if self._before is None else digest(self._before + data)
            after = State(kind="file", mode=before.mode, digest=whole, size=before.size + len(data))
        if self._before is not None:
            site.keep(self._before)
        kept = former is None or self._before is not None
        self.steps.append(Step(path=walk.true_path, before=before, after=after, kept=kept))

    def commit(self) -> None:
        walk, former = self.walk, self._former
        if former is None:
            try:
                rename_new(walk.directory, self._temporary, walk.directory, walk.name)
            except FileExistsError:
                raise (entries.exists(self.path) if self._new else changed(self.path)) from None
            return
        if self._append:
            assert isinstance(self._content, bytes)
            found = os.fstat(former)
            if stat.S_IMODE(found.st_mode) & (stat.S_ISUID | stat.S_ISGID):
                # The system does this itself, but not for root. For another owner's file, it does.
                with contextlib.suppress(PermissionError):
                    os.fchmod(former, entries.mode_of(found))
            entries.write_all(former, self._content)
            os.fsync(former)
            if os.fstat(former).st_nlink == 0:
                # Another program exchanged the file: the text was appended to the deleted one.
                raise changed(self.path)
            return
        try:
            exchanged = exchange(walk.directory, self._temporary, walk.directory, walk.name)
        except FileNotFoundError:
            raise changed(self.path) from None
        if not exchanged:
            # Without an exchange, another program can write between this last check and the renaming.
            if not self._is_former(walk, walk.name, former):
                raise changed(self.path)
            os.replace(self._temporary, walk.name, src_dir_fd=walk.directory, dst_dir_fd=walk.directory)
        elif not self._is_former(walk, self._temporary, former):
            self._give_back(walk)
            raise changed(self.path)

    def _give_back(self, walk: Walk) -> None:
        """Puts back the displaced file, which another program has put there meanwhile.

        Each exchange must return the file that was put in before: first ours. Otherwise the other program was there
        again, and its latest file is put back next.
        """
        assert self._laid is not None
        put = os.fstat(self._laid)
        with contextlib.ExitStack() as stack:
            for _ in range(_ATTEMPTS):
                # Held, so that its number cannot become another file's meanwhile.
                held = os.open(self._temporary, _HOLD, dir_fd=walk.directory)
                stack.callback(os.close, held)
                exchange(walk.directory, self._temporary, walk.directory, walk.name)
                if entries.is_same(entries.look(walk.directory, self._temporary), put):
                    break
                put = os.fstat(held)
            else:
                return
        # If our file was deleted, the displaced one was replaced, too. If ours was only moved, the displaced one may be
        # the other program's only copy, and stays under the temporary name.
        if not self._is_ours(walk) and os.fstat(self._laid).st_nlink == 0:
            discard(walk.directory, self._temporary)

    def _is_former(self, walk: Walk, name: str, former: int) -> bool:
        """Whether a name has the examined file, unchanged."""
        found = os.fstat(former)
        if not entries.is_same(entries.look(walk.directory, name), found) or found.st_nlink > 1:
            return False
        return self._before is None or entries.read_within(former, KEEP_BYTES) == self._before

    def revert(self) -> None:
        walk = self.walk
        if self._former is None:
            os.unlink(walk.name, dir_fd=walk.directory)
        elif self._append:
            os.ftruncate(self._former, os.fstat(self._former).st_size - self.size)
        elif not exchange(walk.directory, self._temporary, walk.directory, walk.name):
            if self._before is None:
                raise ResourceFault(f"{self.path!r} has its new content, and cannot be restored.", code="partly")
            if self._laid is not None:
                os.close(self._laid)
            self._lay(walk, self._before, os.fstat(self._former))
            os.replace(self._temporary, walk.name, src_dir_fd=walk.directory, dst_dir_fd=walk.directory)

    def _is_ours(self, walk: Walk) -> bool:
        """Whether the temporary name has our file, or the one that it replaced, and no other program's."""
        found = entries.look(walk.directory, self._temporary)
        if self.made and self._former is not None and entries.is_same(found, os.fstat(self._former)):
            return True
        return self._laid is not None and entries.is_same(found, os.fstat(self._laid))

    def close(self) -> None:
        if self._walk is not None and self._temporary and self._is_ours(self._walk):
            discard(self._walk.directory, self._temporary)
        super().close()
        entries.close_all(self._former, self._laid)


def _keep(descriptor: int, former: os.stat_result) -> None:
    """Gives the new file the former one's owner and permissions, without the bits that lend an identity."""
    found = os.fstat(descriptor)
    if (found.st_uid, found.st_gid) != (former.st_uid, former.st_gid):
        try:
            os.fchown(descriptor, former.st_uid, former.st_gid)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise
    os.fchmod(descriptor, entries.mode_of(former))
