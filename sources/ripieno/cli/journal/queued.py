"""Errors of commands about conversations whose runs are in the queue beside a journal, with the next command."""

import contextlib
import pathlib
import shlex
from collections.abc import Generator

from ripieno.approvals.visible_text import visible
from ripieno.assembly.submissions import find_not_begun, find_runs
from ripieno.canisters.display import short
from ripieno.cli.common.workers import report_lacking_worker
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import Conflict, InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatched, State
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
    """Names the run of a conversation that a worker conducts, and the commands for it. Errors: ``Conflict``."""
    try:
        yield
    except Conflict as conflict:
        if not (name := name_of_run(journal, place, conversation, owner, "running")):
            raise
        raise Conflict(f"{conflict} {_commands(name)}") from None


def _commands(run: str) -> str:
    return f"It is the run {run}. To watch it: ripieno runs watch {run}    (to end it: ripieno runs cancel {run})"


def name_of_run(journal: Journal, place: pathlib.Path | str, conversation: str, owner: str, *states: State) -> str:
    """The newest run of a conversation in one of these states, as a command names it.

    Empty without one, or where the queue cannot be used: what else is known is said there, too.
    """
    with contextlib.suppress(InputError):
        runs = find_runs(place, journal.database, conversation, owner)
        if (found := next((one.submission.identifier for one in runs if one.state in states), None)) is not None:
            return shlex.quote(visible(short(found)))
    return ""


@contextlib.contextmanager
def explaining_absent(
    journal: Journal, place: pathlib.Path | str, beginning: str, owner: str | None
) -> Generator[None, None, None]:
    """Says of a conversation that is not paused what is known of it: it has not begun, is conducted, or has gone on.

    Errors: ``InputError`` then, in place of the ``NameAbsence`` of the block.
    """
    try:
        yield
    except NameAbsence as absence:
        try:
            with explaining_queued(journal, place, beginning, owner):
                found = journal.find(beginning, owner=owner)
        except NameAbsence:
            raise absence from None
        name = visible(found.identifier)
        if PausedStore(journal.database).is_claimed(found.identifier, owner=found.owner):
            run = name_of_run(journal, place, found.identifier, found.owner, "running")
            advice = _commands(run) if run else "If it asks about a call, answer there."
            raise Conflict(f"Another process conducts the conversation {name}. {advice}") from None
        advice = f"To see it: ripieno journal show {shlex.quote(visible(short(found.identifier)))}"
        raise InputError(f"The conversation {name} does not wait for an answer now. {advice}") from None
