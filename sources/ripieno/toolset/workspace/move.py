"""Moves a file or a directory: names in open directories, compared again afterwards."""

import functools
import os
import stat
from collections.abc import Callable

from ripieno.exceptions import PermissionFault, ResourceFault, ValidationFault
from ripieno.storage.undo import KEEP_BYTES, Kind, State, Step
from ripieno.toolset.workspace import entries
from ripieno.toolset.workspace.guard import changed
from ripieno.toolset.workspace.syscalls import exchange, rename_new
from ripieno.toolset.workspace.transaction import Operation, Site
from ripieno.toolset.workspace.tree import Visit, beneath, refuse_controls
from ripieno.toolset.workspace.walk import Walk


class Move(Operation):
    """Moves a file or a directory. ``kind`` is the required kind: "file", "directory" or "any"."""

    def __init__(
        self,
        source: str,
        destination: str,
        *,
        kind: str = "any",
        overwrite: bool = False,
        create_directories: bool = False,
    ) -> None:
        super().__init__(source)
        self.destination = destination
        self._kind = kind
        self._overwrite = overwrite
        self._create = create_directories
        self._from: Walk | None = None
        self._to: Walk | None = None
        self._held: int | None = None
        self._replaced: int | None = None
        self._check_entry: Callable[[Visit], object] = str
        #: The steps of what is in a directory, which moves in one step.
        self._inner: list[Step] = []

    @property
    def shown(self) -> list[Step]:
        return [*self.steps[:-1], *self._inner, *self.steps[-1:]]

    def prepare(self, site: Site) -> None:
        self._from = source = site.walk(self.path)
        if source.name == ".":
            raise PermissionFault("The workspace itself cannot be moved.", code="is_workspace")
        found = entries.status(source)
        check_kind(found, source, self._kind)
        if stat.S_ISDIR(found.st_mode):
            self._held = os.open(source.name, entries.DIRECTORY, dir_fd=source.directory)
            state = State(kind="directory", mode=entries.mode_of(found))
        else:
            self._held = entries.open_single(source, os.O_RDONLY)
            state = entries.file_state(os.fstat(self._held), entries.read_within(self._held, KEEP_BYTES))
        created = self.created if self._create else None
        self._to = target = site.walk(self.destination, created=created, unless="create_directories = true")
        if f"{target.true_path}/".startswith(f"{source.true_path}/"):
            raise ValidationFault(f"{self.path!r} cannot be moved into itself.", code="into_itself")
        if stat.S_ISDIR(found.st_mode):
            self._check_entry = functools.partial(self._take_along, site, source.true_path, target.true_path)
            refuse_controls(self._held, self.path, self._check_entry)
        before, kept = self._prepare_target(site, target, is_directory=stat.S_ISDIR(found.st_mode))
        self.note_directories()
        self.steps.append(Step(path=target.true_path, before=before, after=state, source=source.true_path, kept=kept))

    def _take_along(self, site: Site, source_path: str, target_path: str, one: Visit) -> None:
        """Checks an entry of the directory, and notes its move."""
        before, after = beneath(source_path, one.path), beneath(target_path, one.path)
        site.check_found(f"{self.path}/{one.path}", source=before, destination=after)
        kind: Kind = "directory" if one.is_directory else "file"
        self._inner.append(Step(path=after, before=None, after=State(kind=kind), source=before))

    def _prepare_target(self, site: Site, target: Walk, *, is_directory: bool) -> tuple[State | None, bool]:
        """The state of the replaced file, and whether its content is kept."""
        there = entries.look(target.directory, target.name)
        if there is None:
            return None, True
        check_target(there, target, overwrite=self._overwrite and not is_directory)
        self._replaced = entries.open_single(target, os.O_RDONLY)
        data = entries.read_within(self._replaced, KEEP_BYTES)
        if data is not None:
            site.keep(data)
        return entries.file_state(os.fstat(self._replaced), data), data is not None

    def commit(self) -> None:
        source, target, held = self._from, self._to, self._held
        assert source is not None
        assert target is not None
        assert held is not None
        try:
            if self._replaced is None:
                rename_new(source.directory, source.name, target.directory, target.name)
                exchanged = False
            else:
                exchanged = exchange(source.directory, source.name, target.directory, target.name)
                if not exchanged:
                    os.replace(source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory)
        except FileNotFoundError:
            raise changed(self.path) from None
        except FileExistsError:
            raise changed(self.destination) from None
        try:
            self._check(source, target, held, exchanged=exchanged)
        except BaseException:
            if exchanged:
                exchange(source.directory, source.name, target.directory, target.name)
            else:
                rename_new(target.directory, target.name, source.directory, source.name)
            raise
        if exchanged:
            os.unlink(source.name, dir_fd=source.directory)

    def _check(self, source: Walk, target: Walk, held: int, *, exchanged: bool) -> None:
        """Checks that the moved and the replaced file are the examined ones, without control files."""
        found = os.fstat(held)
        if not entries.is_same(entries.look(target.directory, target.name), found):
            raise changed(self.path)
        if stat.S_ISDIR(found.st_mode):
            self._inner.clear()
            refuse_controls(held, self.path, self._check_entry)
        elif found.st_nlink > 1:
            raise changed(self.path)
        if exchanged and self._replaced is not None:
            there = entries.look(source.directory, source.name)
            if not entries.is_same(there, os.fstat(self._replaced)):
                raise changed(self.destination)

    def close(self) -> None:
        for walk in (self._from, self._to):
            if walk is not None:
                walk.close()
        entries.close_all(self._held, self._replaced)


def check_kind(found: os.stat_result, place: Walk, kind: str) -> None:
    """Checks the kind of a file. Errors: ``ToolFault``."""
    entries.check_no_link(found, place)
    if stat.S_ISDIR(found.st_mode):
        if kind == "file":
            raise ResourceFault(
                f"{place.path!r} is a directory.", code="is_directory", suggestion="Name a file, or use move or copy."
            )
        return
    entries.check_regular(found, place.path)
    if kind == "directory":
        raise ResourceFault(f"{place.path!r} is not a directory.", code="not_a_directory")


def check_target(there: os.stat_result, target: Walk, *, overwrite: bool) -> None:
    """Checks that the file with the new name may be replaced. Errors: ``ToolFault``."""
    if stat.S_ISDIR(there.st_mode):
        name = target.path.rstrip("/")
        raise ResourceFault(
            f"{target.path!r} is a directory that exists.",
            code="exists",
            suggestion=f"Give the whole new path, such as {name + '/NAME'!r}.",
        )
    entries.check_no_link(there, target)
    if not overwrite:
        raise ResourceFault(
            f"{target.path!r} exists already.",
            code="exists",
            suggestion="Choose another name, or set overwrite = true for a file that may be replaced.",
        )
