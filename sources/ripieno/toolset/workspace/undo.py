"""Undo of the journal's entries, latest first, where nothing has changed since; and marks to return to."""

import os
import pathlib
from collections.abc import Generator, Iterator, Sequence

from ripieno.ensembles import Context
from ripieno.exceptions import InputError, ToolFault
from ripieno.storage.undo import Cause, State, Step, UndoEntry, UndoLog
from ripieno.toolset.workspace.directories import ChangeMode, MakeDirectory, MakeLink
from ripieno.toolset.workspace.move import Move
from ripieno.toolset.workspace.remove import Remove
from ripieno.toolset.workspace.replace import Replace
from ripieno.toolset.workspace.transaction import Operation
from ripieno.toolset.workspace.workspace import Workspace
from ripieno.values import Value


class Undone(Value, kw_only=True):
    """The outcome of one entry: its restored paths, or the reasons why nothing of it was changed."""

    entry: UndoEntry
    restored: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def mark(context: Context, label: str) -> int | None:
    """Adds a mark to the workspace's journal; returns its number, or None without a journal."""
    journal = None if context.surroundings is None else context.surroundings.journal
    if journal is None or not journal.apart:
        return None
    with journal.locked():
        return journal.add((), cause_of(context), label=label).number


def cause_of(context: Context) -> Cause:
    """The call that a context belongs to."""
    return Cause(tool=context.invoker.identity, conversation=context.conversation, invocation=context.invocation)


def choose(journal: UndoLog, count: int, *, to: str | None = None) -> list[UndoEntry]:
    """The last ``count`` entries with changes, latest first; with ``to``, all since the mark of that label.

    Errors: ``InputError`` for an unknown mark.
    """
    chosen: list[UndoEntry] = []
    for entry in journal.entries():
        if to is not None and entry.label == to:
            return chosen
        if to is None and len(chosen) == count:
            return chosen
        if entry.steps:
            chosen.append(entry)
    if to is not None:
        labels = sorted({entry.label for entry in journal.entries() if entry.label})
        known = f"There is no mark {to!r}. Marks: {', '.join(labels)}."
        raise InputError(known if labels else f"There are no marks, so no {to!r}.")
    return chosen


def undo(
    journal: UndoLog, workspace: pathlib.Path, entries: Sequence[UndoEntry], *, skip: bool = False
) -> Generator[Undone, None, None]:
    """Undoes entries, one after the other; ends with the first refused one, or with ``skip`` passes over it.

    Changes of a skipped entry stay, and so do earlier entries that changed the same paths. Paths with their earlier
    content are left alone, so that an interrupted undo can be repeated. Errors: ``InputError`` for an unreadable
    journal; ``ToolFault`` for an error of the system.
    """
    with journal.locked(), Workspace(workspace) as files:
        staying: set[str] = set()
        for entry in entries:
            refused = _staying(entry, staying) or _refusals(entry, files)
            if refused:
                staying |= _paths(entry)
                yield Undone(entry=entry, refused=tuple(refused))
                if skip:
                    continue
                return
            restored = [path for step in reversed(entry.steps) for path in _restore(step, files, journal)]
            journal.set_undone(entry)
            yield Undone(entry=entry, restored=tuple(dict.fromkeys(restored)))


def _paths(entry: UndoEntry) -> set[str]:
    """All paths of an entry."""
    return {path for step in entry.steps for path in (step.path, step.source) if path}


def _staying(entry: UndoEntry, later: set[str]) -> list[str]:
    """The reasons to keep an entry: its paths that are, contain, or are contained in a path of a skipped later one."""
    above = {folder for path in later for folder in _above(path)}
    found = sorted(path for path in _paths(entry) if path in above or not later.isdisjoint((path, *_above(path))))
    return [f"{path!r} stays, since a later change there was passed over." for path in found]


def _above(path: str) -> Iterator[str]:
    """The folders above a path, beneath the workspace."""
    while path := path.rpartition("/")[0]:
        yield path


def _refusals(entry: UndoEntry, files: Workspace) -> list[str]:
    """The reasons why an entry cannot be undone: its paths in neither the later nor the earlier state."""
    made = {step.path for step in entry.steps if step.before is None}
    reasons: list[str] = []
    for step in entry.steps:
        try:
            reason = _refusal(step, files, made)
        except ToolFault as fault:
            reason = fault.message
        if reason:
            reasons.append(reason)
    return reasons


def _refusal(step: Step, files: Workspace, made: set[str]) -> str:
    now = files.state(step.path)
    source = files.state(step.source) if step.source else None
    gone_back = _is(step.after, source) and now is None if step.source else False
    if gone_back or (_is(step.before, now) and (not step.source or _is(step.after, source))):
        return ""
    if _is_half(step, source, now):
        return ""
    if source is not None:
        return f"{step.source!r}, from where {step.path!r} was moved, exists again."
    if not step.kept:
        return f"What {step.path!r} was before is too large, and was not kept."
    if not _is(step.after, now):
        return f"{step.path!r} {'is gone' if now is None else 'has changed since'}."
    is_new = step.after is not None and step.after.kind == "directory" and step.before is None and not step.source
    return _strange(step.path, files, made) if is_new else ""


def _is_half(step: Step, source: State | None, now: State | None) -> bool:
    """Whether a replacing move was interrupted after the exchange."""
    return step.before is not None and step.kept and _is(step.before, source) and _is(step.after, now)


def _strange(path: str, files: Workspace, made: set[str]) -> str:
    """The reason why a made directory cannot be deleted: a file in it that was not made with it; or empty."""
    with files.open_directory(path) as directory:
        strange = [name for name in os.listdir(directory) if f"{path}/{name}" not in made]
    return f"{path!r} has something in it that was not there: {strange[0]!r}." if strange else ""


def _is(expected: State | None, now: State | None) -> bool:
    """Whether a path has the expected state. Without a digest, size and permissions decide."""
    if expected is None or now is None:
        return expected is now
    if expected.kind == "file" and not expected.digest:
        return now.kind == "file" and (expected.size, expected.mode) == (now.size, now.mode)
    return expected.same(now) and (expected.kind != "directory" or not expected.mode or expected.mode == now.mode)


def _restore(step: Step, files: Workspace, journal: UndoLog) -> list[str]:
    """Restores one path; returns the changed paths."""
    now = files.state(step.path)
    if step.source:
        source = files.state(step.source)
        moved = not _is(step.after, source)
        if moved and _is_half(step, source, now):
            files.perform((Remove(step.source, kind="file"),))
        if moved:
            files.perform((Move(step.path, step.source, create_directories=True),))
            now = None
        if step.before is not None and now is None:
            files.perform((_write(step.path, step.before, journal),))
        return [step.source, step.path] if moved else []
    if _is(step.before, now):
        return []
    files.perform((_reversal(step, journal),))
    return [step.path]


def _reversal(step: Step, journal: UndoLog) -> Operation:
    before, after = step.before, step.after
    if before is None:
        return Remove(step.path, kind="directory" if after and after.kind == "directory" else "file")
    if after is not None and before.kind == after.kind and before.mode != after.mode and before.digest == after.digest:
        return ChangeMode(step.path, before.mode)
    if before.kind == "directory":
        return MakeDirectory(step.path, parents=False, mode=before.mode | 0o700)
    if before.kind == "link":
        return MakeLink(step.path, before.target)
    return _write(step.path, before, journal)


def _write(path: str, before: State, journal: UndoLog) -> Operation:
    return Replace(path, journal.load(before.digest), mode=before.mode)
