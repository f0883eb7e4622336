"""Makes directories and links, and sets permissions, on descriptors of the examined files."""

import contextlib
import os
import stat

from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import Kind, State, Step
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.transaction import Operation, ReversibleOperation, Site


class MakeDirectory(ReversibleOperation):
    """Makes a directory; with ``parents`` also those above it, and an existing one is accepted."""

    def __init__(self, path: str, *, parents: bool, mode: int | None = None) -> None:
        super().__init__(path)
        self._parents = parents
        self._mode = mode

    def prepare(self, site: Site) -> None:
        created = self.created if self._parents else None
        self._walk = walk = site.walk(self.path, follow=self._parents, created=created, unless="parents = true")
        there = entries.look(walk.directory, walk.name)
        self.note_directories()
        if there is None:
            self.steps.append(Step(path=walk.true_path, before=None, after=State(kind="directory")))
        elif not stat.S_ISDIR(there.st_mode) or not self._parents:
            what = "" if stat.S_ISDIR(there.st_mode) else ", and is not a directory"
            raise ResourceFault(
                f"{self.path!r} exists already{what}.",
                code="exists",
                suggestion="Choose another name." if what else "Use it as it is, or choose another name.",
            )

    def commit(self) -> None:
        if len(self.steps) > len(self.created):
            os.mkdir(self.walk.name, 0o777 if self._mode is None else self._mode, dir_fd=self.walk.directory)

    def revert(self) -> None:
        if len(self.steps) > len(self.created):
            os.rmdir(self.walk.name, dir_fd=self.walk.directory)


class MakeLink(Operation):
    """Makes a link at a free name, to restore it. No tool makes new links."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path)
        self._target = target

    def prepare(self, site: Site) -> None:
        self._walk = walk = site.walk(self.path)
        self.steps.append(Step(path=walk.true_path, before=None, after=State(kind="link", target=self._target)))

    def commit(self) -> None:
        os.symlink(self._target, self.walk.name, dir_fd=self.walk.directory)


class ChangeMode(ReversibleOperation):
    """Sets the nine permission bits of a file or a directory; not the set-user-ID, set-group-ID and sticky bits."""

    def __init__(self, path: str, mode: int) -> None:
        super().__init__(path)
        self._mode = mode & 0o777
        self._held: int | None = None

    def prepare(self, site: Site) -> None:
        with contextlib.closing(site.walk(self.path)) as walk:
            found = entries.status(walk)
            entries.check_no_link(found, walk)
            # Without O_PATH (macOS), what cannot be read cannot be changed.
            self._held = os.open(walk.name, getattr(os, "O_PATH", os.O_RDONLY) | entries.SAFELY, dir_fd=walk.directory)
            found = os.fstat(self._held)
            if not stat.S_ISDIR(found.st_mode):
                entries.check_regular(found, self.path)
                entries.check_single(found, self.path)
            kind: Kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
            before = State(kind=kind, mode=entries.mode_of(found), size=found.st_size)
            after = State(kind=kind, mode=self._mode, size=found.st_size)
            self.steps.append(Step(path=walk.true_path, before=before, after=after))

    def commit(self) -> None:
        self._set(self._mode)

    def revert(self) -> None:
        before = self.steps[0].before
        if before is not None:
            self._set(before.mode)

    def _set(self, mode: int) -> None:
        assert self._held is not None
        if hasattr(os, "O_PATH"):
            # The file of the descriptor, even if it has lost its name.
            os.chmod(f"/proc/self/fd/{self._held}", mode)
        else:
            os.fchmod(self._held, mode)

    def close(self) -> None:
        entries.close_all(self._held)
