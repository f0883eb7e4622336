"""Shared code of the file tools: the workspace of a call, its conversation's readings, and reported changes."""

import os
import stat
from collections.abc import Iterable, MutableMapping

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import State, Step
from ripieno.toolset.arguments import several
from ripieno.toolset.workspace.tree import Visit
from ripieno.toolset.workspace.undo import cause_of
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a file that can be read, from its beginning or end.
READ_CAP = 10 * 1024 * 1024
#: Bytes in which a NUL makes a file binary, as in git.
BINARY_PROBE = 8192


def open_workspace(context: Context) -> Workspace:
    """Opens the workspace of a call. Errors: ``ResourceFault`` when there is none."""
    if context.surroundings is None:
        raise ResourceFault("There is no workspace here.", code="workspace")
    given = context.surroundings
    return Workspace(
        given.workspace,
        journal=given.journal,
        cause=cause_of(context),
        protected=given.protected,
        barred=context.barred,
    )


def readings(context: Context) -> MutableMapping[str, str]:
    """Hashes by true path of the files that the conversation's tools have read or written.

    Without an undo log, which the ensembles of an application share, each ensemble has its own.
    """
    journal = None if context.surroundings is None else context.surroundings.journal
    if journal is not None:
        return journal.readings(context.conversation)
    known: MutableMapping[str, str] = context.namespace.setdefault("readings", {})
    return known


def learn(context: Context, steps: Iterable[Step], *, whole: bool = False) -> None:
    """Updates the readings after the conversation's own changes; with ``whole``, also for files not read before."""
    known = readings(context)
    for step in steps:
        was_known = known.pop(step.source or step.path, None)
        if step.after is not None and step.after.digest and (whole or was_known is not None):
            known[step.path] = step.after.digest


def changes(steps: Iterable[Step]) -> tuple[Change, ...]:
    """The changes of seed 000, section 3.3, with hashes before and after where they are known."""
    found: list[Change] = []
    for step in steps:
        if step.source:
            found.append(Change.of("FileDeleted", path=step.source, **_hashes(step.after, None), moved_to=step.path))
        if step.after is None:
            found.append(Change.of("FileDeleted", path=step.path, **_hashes(step.before, None)))
        elif step.after.kind == "directory" and step.before is None:
            found.append(Change.of("DirectoryCreated", path=step.path))
        elif step.before is None:
            found.append(Change.of("FileCreated", path=step.path, **_hashes(None, step.after)))
        else:
            found.append(Change.of("FileModified", path=step.path, **_hashes(step.before, step.after)))
    return tuple(found)


def _hashes(before: State | None, after: State | None) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, state in (("before", before), ("after", after)):
        if state is not None and state.digest:
            found[name] = state.digest
    if before is not None and after is not None and before.mode != after.mode:
        found |= {"mode_before": f"{before.mode:04o}", "mode_after": f"{after.mode:04o}"}
    return found


def not_kept(workspace: Workspace, steps: Iterable[Step]) -> str:
    """The remark about a change that cannot be undone; else empty."""
    lost = workspace.journalled and not all(step.kept for step in steps)
    return " It cannot be undone: the former content is too large to be kept." if lost else ""


def printable(name: str) -> str:
    """A name on one line: control characters and invalid UTF-8 are escaped, so that it cannot imitate another."""
    text = name.encode("utf-8", "surrogateescape").decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def described(one: Visit, shown: str) -> tuple[str, str]:
    """The kind of an entry, as ``find_files`` names it, and its line in a list. Errors: ``OSError`` if it is gone."""
    status = os.stat(one.name, dir_fd=one.directory, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return "directory", f"{shown}/"
    if stat.S_ISLNK(status.st_mode):
        return "link", f"{shown} -> {printable(os.readlink(one.name, dir_fd=one.directory))}"
    if stat.S_ISREG(status.st_mode):
        return "file", f"{shown} ({several(status.st_size, 'byte')})"
    return "other", f"{shown} (not a file)"
