"""Errors of commands about conversations whose runs are in the queue beside a journal, with the next command."""

import contextlib
import pathlib
import shlex
from collections.abc import Generator

from ripieno.approvals.visible_text import visible
from ripieno.assembly.submissions import find_not_begun, find_runs
from ripieno.canisters.display import short
from ripieno.cli.common.workers import report_lacking_worker
from ripieno.exceptions import Conflict, InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatched
from ripieno.storage.journal import Journal

_WAITS = {"scheduled": "waits for its time", "queued": "waits for a worker", "running": "is under way"}


@contextlib.contextmanager
def explaining_queued(
    journal: Journal, place: pathlib.Path | str, beginning: str | None, owner: str | None
) -> Generator[None, None, None]:
    """Says of a conversation that the journal does not have that its run is in the queue, if it is.

    Errors: ``InputError`` then, in place of the ``NameAbsence`` of the block.
    """
    try:
        yield
    except NameAbsence:
        found = None if beginning is None else find_not_begun(place, journal.database, beginning, owner)
        runs = () if found is None else find_runs(place, journal.database, *found)
        if found is None or not runs:
            raise
        if runs[0].state == "queued":
            report_lacking_worker(runs[0].submission, journal.database)
        raise InputError(f"Nothing of {visible(found[0])} is recorded yet: {_state(runs[0])}") from None


def _state(run: Dispatched) -> str:
    name = shlex.quote(visible(short(run.submission.identifier)))
    if run.over:
        conversation = shlex.quote(visible(short(run.submission.conversation)))
        return f"its run {name} has not begun ({run.state}). To delete it: ripieno journal delete {conversation}"
    waits = _WAITS[run.state]
    return f"its run {name} {waits}. To watch it: ripieno runs watch {name}"


@contextlib.contextmanager
def explaining_conducted(
    journal: Journal, place: pathlib.Path | str, conversation: str, owner: str
) -> Generator[None, None, None]:
    """Names the command that ends the run of a conversation that a worker conducts. Errors: ``Conflict``."""
    try:
        yield
    except Conflict as conflict:
        runs = find_runs(place, journal.database, conversation, owner)
        running = next((one.submission.identifier for one in runs if one.state == "running"), None)
        if running is None:
            raise
        name = shlex.quote(visible(short(running)))
        raise Conflict(f"{conflict} It is the run {name}. To end it: ripieno runs cancel {name}") from None
