"""Deletes a file, a link, a directory, or a tree: first its name, at once, and then its contents."""

import contextlib
import os
import stat
from collections.abc import Callable

from ripieno.exceptions import PermissionFault, ResourceFault
from ripieno.storage.undo import KEEP_BYTES, Step
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.guard import changed, controls, guarded
from ripieno.toolset.workspace.syscalls import rename_new
from ripieno.toolset.workspace.transaction import ReversibleOperation, Site
from ripieno.toolset.workspace.tree import Visit, beneath, empty, refuse_controls, visit
from ripieno.toolset.workspace.walk import Walk

#: Entries and bytes of the largest tree whose deletion can be undone.
UNDO_ENTRIES = 10_000
UNDO_BYTES = 64 * 1024 * 1024


class Remove(ReversibleOperation):
    """Deletes a file or a link (``kind="file"``), or a directory; with ``recursive`` also its contents.

    A file with another content than ``expected`` is a conflict.
    """

    def __init__(self, path: str, *, kind: str, recursive: bool = False, expected: bytes | None = None) -> None:
        super().__init__(path)
        self._expected = expected
        self.count = 1
        self.kept = True
        self._kind = kind
        self._recursive = recursive
        self._held: int | None = None
        self._data: bytes | None = None
        self._found: os.stat_result | None = None
        self._temporary = ""
        self._is_tree = False
        self._check_entry: Callable[[Visit], object] = str

    def prepare(self, site: Site) -> None:
        self._walk = walk = site.walk(self.path)
        if walk.name == ".":
            raise PermissionFault("The workspace itself cannot be deleted.", code="is_workspace")
        self._found = found = entries.status(walk)
        is_directory = stat.S_ISDIR(found.st_mode)
        if is_directory and self._kind == "file":
            raise ResourceFault(
                f"{self.path!r} is a directory.", code="is_directory", suggestion="Use delete_directory."
            )
        if not is_directory and self._kind == "directory":
            raise ResourceFault(
                f"{self.path!r} is not a directory.", code="not_a_directory", suggestion="Use delete_file."
            )
        if is_directory:
            self._prepare_directory(site, walk)
        else:
            self._prepare_file(site, walk, found)

    def _prepare_file(self, site: Site, walk: Walk, found: os.stat_result) -> None:
        if stat.S_ISLNK(found.st_mode):
            state = entries.state_of(walk.directory, walk.name, found, self.path)
        else:
            entries.check_regular(found, self.path)
            entries.check_single(found, self.path)
            state = entries.file_state(found, None)
            with contextlib.suppress(PermissionError):
                self._held = entries.open_single(walk, os.O_RDONLY)
                self._found = found = os.fstat(self._held)
                self._data = entries.read_within(self._held, KEEP_BYTES)
                state = entries.file_state(found, self._data)
            if self._data is not None:
                site.keep(self._data)
            self.kept = self._data is not None
            if self._expected is not None and self._data != self._expected:
                raise changed(self.path)
        self.steps.append(Step(path=walk.true_path, before=state, after=None, kept=self.kept))

    def _prepare_directory(self, site: Site, walk: Walk) -> None:
        self._held = held = os.open(walk.name, entries.DIRECTORY, dir_fd=walk.directory)
        self._found = found = os.fstat(held)
        with os.scandir(held) as listed:
            is_empty = next(listed, None) is None
        if not is_empty and not self._recursive:
            raise ResourceFault(
                f"{self.path!r} is not empty.",
                code="not_empty",
                suggestion="Empty it first, or delete it with all that is in it: delete_directory, recursive = true.",
            )
        self._is_tree = not is_empty
        true_path = walk.true_path
        self._check_entry = lambda one: site.check_found(f"{self.path}/{one.path}", path=beneath(true_path, one.path))
        state = entries.state_of(walk.directory, walk.name, found, self.path)
        inner = self._inner(site, walk, held) if self._is_tree else []
        # The innermost first, so that an undo makes the outermost first.
        self.steps += [*inner, Step(path=walk.true_path, before=state, after=None, kept=self.kept)]

    def _inner(self, site: Site, walk: Walk, held: int) -> list[Step]:
        """The steps of all contents, unless they are too many. Refuses files that may not be deleted."""
        steps: list[Step] = []
        size = 0
        for one in visit(held):
            if controls(one.name):
                raise guarded(self.path, one.path)
            if not one.leaving:
                self._check_entry(one)
            if one.is_directory and not one.leaving:
                continue
            self.count += 1
            found = os.stat(one.name, dir_fd=one.directory, follow_symlinks=False)
            path = f"{self.path.rstrip('/')}/{one.path}"
            entries.check_single(found, path)
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
            if not one.is_directory and not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
                raise entries.special(path)
            self.kept = self.kept and self.count <= UNDO_ENTRIES and size <= UNDO_BYTES
            if self.kept and site.journal is not None:
                steps.append(self._step(site, one, f"{walk.true_path}/{one.path}"))
        return steps if self.kept else []

    def _step(self, site: Site, one: Visit, path: str) -> Step:
        found = os.stat(one.name, dir_fd=one.directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            state = entries.state_of(one.directory, one.name, found, path)
            return Step(path=path, before=state, after=None)
        data = None
        with contextlib.suppress(PermissionError):
            descriptor = os.open(one.name, os.O_RDONLY | entries.SAFELY, dir_fd=one.directory)
            try:
                data = entries.read_within(descriptor, KEEP_BYTES)
            finally:
                os.close(descriptor)
        if data is None:
            self.kept = False
        else:
            site.keep(data)
        return Step(path=path, before=entries.file_state(found, data), after=None, kept=data is not None)

    def commit(self) -> None:
        walk, found = self.walk, self._found
        assert found is not None
        self._temporary = entries.temporary_name()
        try:
            rename_new(walk.directory, walk.name, walk.directory, self._temporary)
        except FileNotFoundError:
            self._temporary = ""
            raise changed(self.path) from None
        try:
            self._check(walk, found)
        except BaseException:
            self.revert()
            raise

    def _check(self, walk: Walk, found: os.stat_result) -> None:
        """Checks that the renamed file is the examined one. Errors: ``ResourceFault``; ``PermissionFault``."""
        now = entries.look(walk.directory, self._temporary)
        if not entries.is_same(now, found) or (
            now is not None and stat.S_IFMT(now.st_mode) != stat.S_IFMT(found.st_mode)
        ):
            raise changed(self.path)
        if self._held is None:
            return
        if stat.S_ISDIR(found.st_mode):
            if self._is_tree:
                refuse_controls(self._held, self.path, self._check_entry)
            else:
                with os.scandir(self._held) as listed:
                    if next(listed, None) is not None:
                        raise changed(self.path)
        elif self._data is not None and entries.read_within(self._held, KEEP_BYTES) != self._data:
            raise changed(self.path)

    def revert(self) -> None:
        if self._temporary:
            rename_new(self.walk.directory, self._temporary, self.walk.directory, self.walk.name)
            self._temporary = ""

    def finish(self) -> None:
        walk, found = self.walk, self._found
        assert found is not None
        try:
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(self._temporary, dir_fd=walk.directory)
                return
            assert self._held is not None
            if self._is_tree:
                empty(self._held)
            os.rmdir(self._temporary, dir_fd=walk.directory)
        except OSError as error:
            where = "/".join([*walk.parents, self._temporary])
            raise ResourceFault(
                f"{self.path!r} has lost its name, but not all of it could be deleted ({error.strerror}): "
                f"what is left is in {where!r}.",
                code="partly",
                suggestion="Ask the user; what was deleted comes back with: ripieno undo",
            ) from error

    def close(self) -> None:
        super().close()
        entries.close_all(self._held)
