"""The changes of files that the programs of a call make, for its report."""

import contextlib
from collections.abc import AsyncGenerator

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context
from ripieno.ensembles.threads import run_in_thread


@contextlib.asynccontextmanager
async def note_changes(context: Context, *, write: bool) -> AsyncGenerator[None, None]:
    """Adds the changes in the workspace during the block to those of the call, unless nothing may ``write``."""
    sandbox = None if context.surroundings is None else context.surroundings.sandbox
    if sandbox is None or not write:
        yield
        return
    files = sandbox.files
    look = files.begin() if files.listed else await run_in_thread(files.begin, name="list of the workspace")
    try:
        yield
    finally:
        found = sandbox.without_own(files.end(look))
        context.changes.found += (Change.of(kind, path=path) for kind, path in found)
        context.changes.unknown = look.unknown or context.changes.unknown
