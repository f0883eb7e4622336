"""The changes of files that the programs of a call make, for its report."""

import contextlib
from collections.abc import AsyncGenerator, Sequence

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context
from ripieno.ensembles.threads import run_in_thread
from ripieno.sandbox import Sandbox
from ripieno.sandbox.changed_files import FileChange, Look


@contextlib.asynccontextmanager
async def note_changes(context: Context, *, write: bool) -> AsyncGenerator[None, None]:
    """Adds the changes in the workspace during the block to those of the call, unless nothing may ``write``."""
    look = await begin_look(context) if write else None
    try:
        yield
    finally:
        end_look(context, look)


async def begin_look(context: Context) -> Look | None:
    """Begins to look at the changes in the workspace; None without a sandbox, which looks at them."""
    sandbox = None if context.surroundings is None else context.surroundings.sandbox
    if sandbox is None:
        return None
    files = sandbox.files
    if files.listed:
        return files.begin()
    # Not patient: the program of a cancelled call must not start after it.
    return await run_in_thread(files.begin, name="list of the workspace", patient=False)


def end_look(context: Context, look: Look | None) -> None:
    """Adds the changes since ``begin_look``, perhaps in an earlier call, to those of the call, each once."""
    sandbox = None if context.surroundings is None else context.surroundings.sandbox
    if sandbox is not None and look is not None:
        _note(context, sandbox, look, sandbox.files.end(look))


def renew_look(context: Context, look: Look | None) -> Look | None:
    """As ``end_look``; the look for the next call has all that comes later."""
    sandbox = None if context.surroundings is None else context.surroundings.sandbox
    if sandbox is None or look is None:
        return None
    found, next_look = sandbox.files.renew(look)
    _note(context, sandbox, look, found)
    return next_look


def _note(context: Context, sandbox: Sandbox, look: Look, found: Sequence[FileChange]) -> None:
    noted = (Change.of(kind, path=path) for kind, path in sandbox.without_own(found))
    context.changes.found[:] = dict.fromkeys((*context.changes.found, *noted))
    context.changes.unknown = look.unknown or context.changes.unknown
