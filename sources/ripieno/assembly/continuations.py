"""Answers of which the run that was to continue with them has ended before it began: their calls wait again."""

import contextlib

from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.storage.dispatch.contract import Dispatcher, Submission
from ripieno.storage.journal import Journal


def cancel_submission(dispatcher: Dispatcher, journal: Journal, identifier: str) -> Paused | None:
    """Cancels what has not ended; returns the conversation whose calls wait again, if there is one.

    Errors: ``NameAbsence``; ``InputError``.
    """
    dispatcher.cancel(identifier)
    one = dispatcher.find(identifier).submission
    paused = PausedStore(journal.database).load(one.conversation, owner=one.owner) if one.continues else None
    if paused is None or paused.next_submission is None or paused.next_submission.identifier != identifier:
        return None
    reopened = paused
    with contextlib.suppress(Conflict, NameAbsence):  # Another program takes the answers, or has taken them.
        reopened = reopen_lost(dispatcher, journal, paused)
    return None if reopened.attempt == paused.attempt else reopened


def reopen_lost(dispatcher: Dispatcher, journal: Journal, paused: Paused) -> Paused:
    """The conversation, without its answers if the run that was to continue it has ended before it began.

    Errors: ``Conflict`` if a process conducts it; ``InputError``.
    """
    following = paused.next_submission
    if following is None:
        return paused
    try:
        over = dispatcher.find(following.identifier).over
    except NameAbsence:
        return paused
    return PausedStore(journal.database).reopen(paused) if over and not has_begun(journal, following) else paused


def reopen_failed(journal: Journal, submission: Submission) -> None:
    """Drops the answers that a submission was to continue with, if its run has not begun, and now never will.

    Errors: ``Conflict`` if another process conducts the conversation; ``InputError``.
    """
    store = PausedStore(journal.database)
    paused = store.load(submission.conversation, owner=submission.owner) if submission.continues else None
    following = None if paused is None else paused.next_submission
    if paused is None or following is None or following.identifier != submission.identifier:
        return
    if not has_begun(journal, submission):
        store.reopen(paused)


def has_begun(journal: Journal, submission: Submission) -> bool:
    """Whether a worker has begun the run of a submission: its calls may have run."""
    lines = journal.lines(submission.conversation, owner=submission.owner, stage="began")
    records = (one.record for one in lines)
    # Of a deleted conversation, nothing is left of it.
    return any(one is None or one.details.get("submitted") == submission.identifier for one in records)
