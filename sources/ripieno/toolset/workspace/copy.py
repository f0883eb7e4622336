"""Copies a file or a directory: first under a temporary name, and under its own when it is complete."""

import contextlib
import os
import stat

from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.storage.undo import KEEP_BYTES, State, Step, digest
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.guard import changed, controls, guarded
from ripieno.toolset.workspace.move import check_kind, check_target
from ripieno.toolset.workspace.syscalls import rename_new
from ripieno.toolset.workspace.transaction import Operation, Site
from ripieno.toolset.workspace.tree import Visit, beneath, empty, visit
from ripieno.toolset.workspace.walk import Walk

#: Limits of one copy: bytes of a single file, which is held in memory; entries and bytes of a tree.
FILE_BYTES = 64 * 1024 * 1024
COPY_ENTRIES = 10_000
COPY_BYTES = 256 * 1024 * 1024
_PIECE = 1 << 20


class CopyTree(Operation):
    """Copies a directory with its contents, links as links, to a free name."""

    def __init__(self, source: str, destination: str, *, create_directories: bool = False) -> None:
        super().__init__(source)
        self.destination = destination
        self._create = create_directories
        self._from: int | None = None
        self._to: Walk | None = None
        self._temporary = ""
        self._built: int | None = None
        self._bytes = 0

    def prepare(self, site: Site) -> None:
        with contextlib.closing(site.walk(self.path, follow=True)) as source:
            check_kind(entries.status(source), source, "directory")
            self._from = os.open(source.name, entries.DIRECTORY, dir_fd=source.directory)
            source_path = source.true_path
        created = self.created if self._create else None
        self._to = target = site.walk(self.destination, created=created, unless="create_directories = true")
        if source_path == "." or f"{target.true_path}/".startswith(f"{source_path}/"):
            raise ValidationFault(f"{self.path!r} cannot be copied into itself.", code="into_itself")
        there = entries.look(target.directory, target.name)
        if there is not None:
            check_target(there, target, overwrite=False)
        mode = entries.mode_of(os.fstat(self._from))
        self._temporary = entries.temporary_name()
        os.mkdir(self._temporary, 0o700, dir_fd=target.directory)
        self._built = os.open(self._temporary, entries.DIRECTORY, dir_fd=target.directory)
        self.note_directories()
        self.steps.append(Step(path=target.true_path, before=None, after=State(kind="directory", mode=mode)))
        self._copy_all(site, source_path, target)
        os.fchmod(self._built, mode)

    def _copy_all(self, site: Site, source_path: str, target: Walk) -> None:
        """Copies the tree, with one open directory on each level of both."""
        assert self._from is not None
        assert self._built is not None
        stack = [self._built]
        modes: list[int] = []
        try:
            for count, one in enumerate(visit(self._from)):
                if controls(one.name):
                    raise guarded(self.path, one.path)
                if count > COPY_ENTRIES:
                    raise _too_large(self.path, f"{COPY_ENTRIES} entries")
                if one.leaving:
                    os.fchmod(stack[-1], modes.pop())
                    os.close(stack.pop())
                    continue
                destination = beneath(target.true_path, one.path)
                site.check_found(
                    f"{self.path}/{one.path}", source=beneath(source_path, one.path), destination=destination
                )
                state = self._copy_one(one, stack)
                if one.is_directory:
                    modes.append(state.mode)
                self.steps.append(Step(path=destination, before=None, after=state))
        finally:
            for descriptor in stack[1:]:
                os.close(descriptor)

    def _copy_one(self, one: Visit, stack: list[int]) -> State:
        into, path = stack[-1], f"{self.path}/{one.path}"
        found = os.stat(one.name, dir_fd=one.directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) != one.is_directory:
            raise changed(path)
        if one.is_directory:
            os.mkdir(one.name, 0o700, dir_fd=into)
            stack.append(os.open(one.name, entries.DIRECTORY, dir_fd=into))
            return State(kind="directory", mode=entries.mode_of(found))
        if stat.S_ISLNK(found.st_mode):
            link = os.readlink(one.name, dir_fd=one.directory)
            os.symlink(link, one.name, dir_fd=into)
            return State(kind="link", target=link)
        if not stat.S_ISREG(found.st_mode):
            raise entries.special(path)
        return self._copy_file(one, into, path)

    def _copy_file(self, one: Visit, into: int, path: str) -> State:
        source = os.open(one.name, os.O_RDONLY | entries.SAFELY, dir_fd=one.directory)
        try:
            found = os.fstat(source)
            entries.check_regular(found, path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(one.name, flags, 0o600, dir_fd=into)
            try:
                size = 0
                while piece := os.read(source, _PIECE):
                    size += len(piece)
                    self._bytes += len(piece)
                    if self._bytes > COPY_BYTES:
                        raise _too_large(self.path, f"{COPY_BYTES} bytes")
                    entries.write_all(target, piece)
                mode = entries.mode_of(found)
                os.fchmod(target, mode)
                data = entries.read_within(target, KEEP_BYTES)
            finally:
                os.close(target)
        finally:
            os.close(source)
        return State(kind="file", mode=mode, digest="" if data is None else digest(data), size=size)

    def commit(self) -> None:
        target = self._to
        assert target is not None
        try:
            rename_new(target.directory, self._temporary, target.directory, target.name)
        except FileExistsError:
            raise changed(self.destination) from None
        assert self._built is not None
        if not entries.is_same(entries.look(target.directory, target.name), os.fstat(self._built)):
            rename_new(target.directory, target.name, target.directory, self._temporary)
            raise changed(self.destination)
        self._temporary = ""

    def close(self) -> None:
        if self._to is not None:
            if self._temporary and self._built is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(self._built, 0o700)
                    empty(self._built)
                    os.rmdir(self._temporary, dir_fd=self._to.directory)
            self._to.close()
        entries.close_all(self._from, self._built)


def read_source(site: Site, path: str) -> tuple[bytes, int]:
    """The content and the permissions of a file to copy. Errors: ``ToolFault``; ``OSError``."""
    with contextlib.closing(site.walk(path, follow=True)) as source:
        check_kind(entries.status(source), source, "file")
        descriptor = os.open(source.name, os.O_RDONLY | entries.SAFELY, dir_fd=source.directory)
    try:
        found = os.fstat(descriptor)
        entries.check_regular(found, path)
        data = entries.read_within(descriptor, FILE_BYTES)
        if data is None:
            raise _too_large(path, f"{FILE_BYTES} bytes")
        return data, entries.mode_of(found)
    finally:
        os.close(descriptor)


def _too_large(path: str, limit: str) -> ResourceFault:
    return ResourceFault(
        f"{path!r} has more than {limit}, the most that is copied at once.",
        code="too_large",
        suggestion="Copy parts of it.",
    )
