"""The queue of submitted runs and the journal beside it, as the user's own configuration names them."""

import contextlib
import pathlib
from collections.abc import Generator

from ripieno.assembly.submissions import NAME, SubmittedRun, dispatcher_beside
from ripieno.cli.common.completion import completion
from ripieno.cli.journal.selection import own_place
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher
from ripieno.storage.journal import Journal

#: Characters of an identifier that people see.
SHORT = 8
#: Submissions among which a beginning of an identifier is looked for.
_SEARCHED = 1_000


@contextlib.contextmanager
def open_queue() -> Generator[tuple[Dispatcher, Journal], None, None]:
    """The queue and the journal. Errors: ``InputError``, also where nothing was submitted yet."""
    place = own_place()
    if isinstance(place, pathlib.Path) and not place.with_name(NAME).exists():
        raise InputError('Nothing was submitted yet. To submit a run: ripieno submit "PROMPT"')
    dispatcher = dispatcher_beside(place)
    try:
        with Journal(place) as journal:
            yield dispatcher, journal
    finally:
        dispatcher.close()


def find(dispatcher: Dispatcher, beginning: str) -> Dispatched:
    """The submission whose identifier has this beginning; without one, the latest.

    Errors: ``NameAbsence``; ``InputError`` if several match.
    """
    with contextlib.suppress(NameAbsence):
        if beginning:
            return dispatcher.find(beginning)
    found = [one for one in dispatcher.listed(limit=_SEARCHED) if one.submission.identifier.startswith(beginning)]
    if not found:
        raise NameAbsence("submission", beginning, hint="To list them: ripieno runs list")
    if beginning and len(found) > 1:
        names = ", ".join(one.submission.identifier for one in found[:10])
        raise InputError(f"Several submissions match: {names}. Name one of them.")
    return found[0]


def submitted_run(dispatched: Dispatched, dispatcher: Dispatcher, journal: Journal) -> SubmittedRun:
    """The run of a submission, to watch or to cancel it."""
    return SubmittedRun(dispatched.submission, dispatcher, journal)


def _identifiers() -> list[str]:
    with open_queue() as (dispatcher, _):
        return [one.submission.identifier for one in dispatcher.listed(limit=_SEARCHED)]


complete_submission = completion(lambda _: _identifiers())
