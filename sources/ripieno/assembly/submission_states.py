"""The states of submissions, as programs and commands show them.

The queue has them, but for one: whether calls that waited have their answers is kept beside the journal.
"""

import dataclasses
from collections.abc import Collection, Sequence

from ripieno.conducting.paused import Paused, PausedStore
from ripieno.exceptions import NameAbsence
from ripieno.storage.databases.contract import Database
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher, State

#: Submissions that are looked through.
SEARCHED = 1_000


def find_submission(dispatcher: Dispatcher, database: Database, identifier: str) -> Dispatched:
    """A submission, by its identifier. Errors: ``NameAbsence``; ``InputError``."""
    found = dispatcher.find(identifier)
    if found.state != "waiting":
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
    asked: set[State] = {"waiting" if one == "answered" else one for one in states}
    found = dispatcher.listed(owner=owner, states=asked, limit=SEARCHED if states else limit)
    waiting = PausedStore(database).all(owner) if any(one.state == "waiting" for one in found) else ()
    kept = {(one.owner, one.identifier): one for one in waiting}
    settled = [
        _settled(one, kept.get((one.submission.owner, one.submission.conversation)), dispatcher) for one in found
    ]
    return [one for one in settled if not states or one.state in states][:limit]


def find_following(dispatcher: Dispatcher, dispatched: Dispatched) -> Dispatched | None:
    """The submission with which a conversation goes on after another one, if there is one. Errors: ``InputError``."""
    one, following = dispatched.submission, None
    for other in dispatcher.listed(owner=one.owner, limit=SEARCHED):
        if other.submission.identifier == one.identifier:
            return following
        if (other.submission.owner, other.submission.conversation) == (one.owner, one.conversation):
            following = other
    return None


def _settled(dispatched: Dispatched, paused: Paused | None, dispatcher: Dispatcher) -> Dispatched:
    """The submission with its state; ``paused`` is its conversation, if that waits."""
    if dispatched.state != "waiting" or _waits(dispatched, paused, dispatcher):
        return dispatched
    return dataclasses.replace(dispatched, state="answered")


def _waits(dispatched: Dispatched, paused: Paused | None, dispatcher: Dispatcher) -> bool:
    """Whether the conversation of a submission still waits, and not for a worker that continues it."""
    if paused is None or paused.submission is None or paused.submission.identifier != dispatched.submission.identifier:
        return False
    if paused.next_submission is None:
        return True
    try:
        dispatcher.find(paused.next_submission.identifier)
    except NameAbsence:
        return True
    return False
