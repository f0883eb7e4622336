"""The states of submissions, as programs and commands show them.

The queue has them, but for one: whether calls that waited have their answers, and were continued, is kept beside the
journal.
"""

import dataclasses
from collections.abc import Collection, Sequence

from ripieno.conducting.paused import Paused, PausedStore, find_paused
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.databases.contract import Connection, Database
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher, State, Submission

#: Submissions that are looked through.
SEARCHED = 1_000


def find_submission(dispatcher: Dispatcher, database: Database, identifier: str) -> Dispatched:
    """A submission, by its identifier. Errors: ``NameAbsence``; ``InputError``."""
    found = dispatcher.find(identifier)
    if not _may_be_answered(found):
        return found
    paused = PausedStore(database).load(found.submission.conversation, owner=found.submission.owner)
    return _settled(found, paused, dispatcher)


def list_submissions(
    dispatcher: Dispatcher,
    database: Database,
    *,
    owner: str | None = None,
    states: Collection[State] = (),
    limit: int = 100,
) -> Sequence[Dispatched]:
    """Submissions, the newest first. Errors: ``InputError``."""
    asked = set[State](states)
    if "answered" in asked:
        asked.update(("waiting", "queued"))
        asked.discard("answered")
    found = dispatcher.listed(owner=owner, states=asked, limit=SEARCHED if states else limit)
    waiting = PausedStore(database).all(owner) if any(map(_may_be_answered, found)) else ()
    kept = {(one.owner, one.identifier): one for one in waiting}
    settled = [
        _settled(one, kept.get((one.submission.owner, one.submission.conversation)), dispatcher) for one in found
    ]
    return [one for one in settled if not states or one.state in states][:limit]


def find_queued(dispatcher: Dispatcher, beginning: str, *, owner: str | None = None) -> tuple[str, str] | None:
    """The identifier and the owner of the conversation in the queue with this beginning, if there is one.

    Errors: ``InputError`` if several match.
    """
    queued = (one.submission for one in dispatcher.listed(limit=SEARCHED))
    known = {
        (one.conversation, one.owner)
        for one in queued
        if one.conversation.startswith(beginning) and owner in (None, one.owner)
    }
    fitting = sorted(one for one in known if one[0] == beginning) or sorted(known)
    if len(fitting) > 1:
        names = ", ".join(name for name, _ in fitting)
        raise InputError(f"Several conversations begin with {beginning!r}: {names}. Name one of them.")
    return fitting[0] if fitting else None


def is_answered(journal: Connection, submission: Submission) -> bool:
    """Whether another program than a worker has continued what a queued submission was to continue."""
    return not _is_awaited(submission, find_paused(journal, submission.conversation, owner=submission.owner))


def find_last(dispatcher: Dispatcher, conversation: str, owner: str) -> Submission | None:
    """The last submission of a conversation, if the queue has one. Errors: ``InputError``."""
    return next((one.submission for one in runs_of(dispatcher, conversation, owner)), None)


def runs_of(dispatcher: Dispatcher, conversation: str, owner: str) -> Sequence[Dispatched]:
    """The submissions of a conversation in the queue, the newest first. Errors: ``InputError``."""
    named = owner, conversation
    newest = dispatcher.listed(owner=owner, limit=SEARCHED)
    return [one for one in newest if (one.submission.owner, one.submission.conversation) == named]


def find_following(dispatcher: Dispatcher, dispatched: Dispatched) -> Dispatched | None:
    """The submission with which a conversation goes on after another one, if there is one. Errors: ``InputError``."""
    one, following = dispatched.submission, None
    for other in dispatcher.listed(owner=one.owner, limit=SEARCHED):
        if other.submission.identifier == one.identifier:
            return following
        if (other.submission.owner, other.submission.conversation) != (one.owner, one.conversation):
            continue
        # Of several that continue the same calls, only the newest was not cancelled before it began.
        if following is None or not _is_replaced(other.submission, following.submission):
            following = other
    return None


def _is_replaced(earlier: Submission, later: Submission) -> bool:
    return bool(earlier.continues) and earlier.continues == later.continues


def _settled(dispatched: Dispatched, paused: Paused | None, dispatcher: Dispatcher) -> Dispatched:
    """The submission with its state; ``paused`` is its conversation, if that waits."""
    if not _may_be_answered(dispatched) or _waits(dispatched, paused, dispatcher):
        return dispatched
    return dataclasses.replace(dispatched, state="answered")


def _may_be_answered(dispatched: Dispatched) -> bool:
    """Whether it waits for answers, or for a worker that continues with them: another program may have done that."""
    return dispatched.state == "waiting" or (dispatched.state == "queued" and bool(dispatched.submission.continues))


def _waits(dispatched: Dispatched, paused: Paused | None, dispatcher: Dispatcher) -> bool:
    """Whether the conversation of a submission still waits: for answers, or for the worker that continues it."""
    if dispatched.state == "queued":
        return _is_awaited(dispatched.submission, paused)
    if paused is None or paused.submission is None:
        return False
    identifier, following = dispatched.submission.identifier, paused.next_submission
    if paused.submission.identifier != identifier:
        return False
    if following is None:
        return True
    try:
        dispatcher.find(following.identifier)
    except NameAbsence:
        return True
    return False


def _is_awaited(queued: Submission, paused: Paused | None) -> bool:
    """Whether a conversation still waits for the worker that takes this submission."""
    if paused is None or paused.submission is None:
        return False
    following = paused.next_submission
    # Its own questions are there if its worker has died after it had asked them.
    return queued.identifier in (paused.submission.identifier, following and following.identifier)
