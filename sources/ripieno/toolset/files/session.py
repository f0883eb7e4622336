"""What all file tools share: the room of a call, what its conversation has read, and how changes are told."""

from collections.abc import Iterable, MutableMapping

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault
from ripieno.storage.undo import State, Step
from ripieno.toolset.workspace.undo import cause_of
from ripieno.toolset.workspace.workspace import Workspace

#: Bytes of a file that can be read, from its beginning or its end.
READ_CAP = 10 * 1024 * 1024
#: Where a NUL makes a file binary: git looks as far.
BINARY_PROBE = 8192


def room_of(context: Context) -> Workspace:
    """The room of the workspace. Errors: ``ResourceFault`` when there is none."""
    if context.surroundings is None:
        raise ResourceFault("There is no workspace here.", code="workspace")
    around = context.surroundings
    return Workspace(around.workspace, journal=around.journal, cause=cause_of(context), protected=around.protected)


def readings(context: Context) -> MutableMapping[str, str]:
    """What the conversation knows of files: hashes by true path, whichever ensemble's tool has read or written them.

    Without a journal, which the ensembles of an application share, each ensemble knows its own.
    """
    journal = None if context.surroundings is None else context.surroundings.journal
    if journal is not None:
        return journal.readings(context.conversation)
    known: MutableMapping[str, str] = context.namespace.setdefault("readings", {})
    return known


def learn(context: Context, steps: Iterable[Step], *, whole: bool = False) -> None:
    """What was read stays known through the conversation's own changes; with ``whole``, what it wrote is known too."""
    known = readings(context)
    for step in steps:
        was_known = known.pop(step.source or step.path, None)
        if step.after is not None and step.after.digest and (whole or was_known is not None):
            known[step.path] = step.after.digest


def changes(steps: Iterable[Step]) -> tuple[Change, ...]:
    """The changes of seed 000, section 3.3, with hashes before and after where they are known."""
    told: list[Change] = []
    for step in steps:
        if step.source:
            told.append(Change.of("FileDeleted", path=step.source, **_hashes(step.after, None), moved_to=step.path))
        if step.after is None:
            told.append(Change.of("FileDeleted", path=step.path, **_hashes(step.before, None)))
        elif step.after.kind == "directory" and step.before is None:
            told.append(Change.of("DirectoryCreated", path=step.path))
        elif step.before is None:
            told.append(Change.of("FileCreated", path=step.path, **_hashes(None, step.after)))
        else:
            told.append(Change.of("FileModified", path=step.path, **_hashes(step.before, step.after)))
    return tuple(told)


def _hashes(before: State | None, after: State | None) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, state in (("before", before), ("after", after)):
        if state is not None and state.digest:
            found[name] = state.digest
    if before is not None and after is not None and before.mode != after.mode:
        found |= {"mode_before": f"{before.mode:04o}", "mode_after": f"{after.mode:04o}"}
    return found


def not_kept(room: Workspace, steps: Iterable[Step]) -> str:
    """What a result says of a change that cannot be undone; else nothing."""
    lost = room.journalled and not all(step.kept for step in steps)
    return " It cannot be undone: what was there is too large to be kept." if lost else ""


def printable(name: str) -> str:
    """A name on one line: control characters and what is no UTF-8 are escaped, so that none can pose as another."""
    text = name.encode("utf-8", "surrogateescape").decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
