"""The queue of submitted runs and the journal beside it, as the user's own configuration names them."""

import contextlib
import pathlib
from collections.abc import Generator

from ripieno.assembly.submission_states import SEARCHED, find_submission
from ripieno.assembly.submissions import NAME, SubmittedRun, dispatcher_beside
from ripieno.canisters import UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.display import brief
from ripieno.cli.common.completion import completion
from ripieno.cli.journal.selection import own_place
from ripieno.exceptions import InputError, NameAbsence, nearest
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher, Submission
from ripieno.storage.journal import Journal

_NOTHING = 'Nothing was submitted yet. To submit a run: ripieno submit "PROMPT"'
#: Characters of a prompt or a reason.
WIDTH = 72


def has_queue(place: pathlib.Path | str) -> bool:
    """Whether there may be a queue beside a journal: a file of one is there, or a server may have it."""
    return isinstance(place, str) or place.with_name(NAME).exists()


@contextlib.contextmanager
def open_queue() -> Generator[tuple[Dispatcher, Journal], None, None]:
    """The queue and the journal. Errors: ``InputError``, also where nothing was submitted yet."""
    place = own_place()
    if not has_queue(place):
        raise InputError(_NOTHING)
    dispatcher = dispatcher_beside(place)
    try:
        with Journal(place) as journal:
            yield dispatcher, journal
    finally:
        dispatcher.close()


def find(dispatcher: Dispatcher, journal: Journal, beginning: str) -> Dispatched:
    """The submission whose identifier has this beginning; without one, the latest.

    Errors: ``NameAbsence``; ``InputError`` if several match.
    """
    with contextlib.suppress(NameAbsence):
        if beginning:
            return find_submission(dispatcher, journal.database, beginning)
    listed = dispatcher.listed(limit=SEARCHED)
    found = [one for one in listed if one.submission.identifier.startswith(beginning)]
    if not found and not beginning:
        raise InputError(_NOTHING)
    if not found:
        near = nearest(beginning, [one.submission.identifier for one in listed])
        raise NameAbsence("run", beginning, near, hint="To list them: ripieno runs list")
    if beginning and len(found) > 1:
        names = ", ".join(one.submission.identifier for one in found[:10])
        raise InputError(f"Several runs match: {names}. Name one of them.")
    return find_submission(dispatcher, journal.database, found[0].submission.identifier)


def submitted_run(dispatched: Dispatched, dispatcher: Dispatcher, journal: Journal) -> SubmittedRun:
    """The run of a submission, to watch or to cancel it."""
    return SubmittedRun(dispatched.submission, dispatcher, journal)


def prompt_of(submission: Submission) -> str:
    """The message of a submission; empty if it has none."""
    said = (one for one in submission.canisters if isinstance(one, UserCanister))
    return next((text_of(one.content) for one in said), "")


def words_of(submission: Submission) -> str:
    """A submission, in one line for people."""
    if submission.response:
        return "(background response)"
    return brief(prompt_of(submission), WIDTH) or "(continues after an answer)"


def _identifiers() -> list[str]:
    with open_queue() as (dispatcher, _):
        return [one.submission.identifier for one in dispatcher.listed(limit=SEARCHED)]


complete_submission = completion(lambda _: _identifiers())
