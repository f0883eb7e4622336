"""The states of submissions, where a conversation went on in another program than a worker."""

import pathlib

import pytest

from ripieno.approvals import Approve
from ripieno.assembly.submission_states import find_submission, list_submissions
from ripieno.assembly.submissions import inspect_queue
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.canisters.conversation import Waiting
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.storage.journal import Journal
from tests.support.workers import Site, submission

WAITING = Waiting(
    invocation="a",
    why="approval",
    tool="mine.write",
    binding=dict.fromkeys(("conversation", "invocation", "tool", "definition", "arguments", "rules"), ""),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("goes_on", ["by a worker", "at a terminal"])
def test_an_answered_run_is_queued_until_another_program_has_continued_it(
    place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path, goes_on: str
) -> None:
    site = Site(place=place_with_queue, folder=tmp_path, host="h")
    with site.dispatcher() as dispatcher, Journal(site.place) as journal:
        store = PausedStore(journal.database)
        call = InvocationCanister(identifier="a", name="write")
        conversation = Conversation(identifier="c", canisters=(call,), open=(call,), waiting=(WAITING,))
        store.save(Paused(conversation=conversation, workspace="", model="m", submission=submission("c", "h")))
        following = store.answer("c", {"a": Approve()}).next_submission
        assert following is not None
        assert following.continues == "submission of c"
        dispatcher.submit(following)
        # One that continues what was interrupted, without any answer.
        resumed = submission("d", "h", canisters=())
        dispatcher.submit(resumed)
        if goes_on == "at a terminal":
            store.forget("c")
        state = "queued" if goes_on == "by a worker" else "answered"
        assert find_submission(dispatcher, journal.database, following.identifier).state == state
        assert find_submission(dispatcher, journal.database, resumed.identifier).state == "queued"
        # As ``ripieno doctor`` counts them.
        found = inspect_queue(site.place, journal.database)
        assert found is not None
        assert (found.queued, found.answered) == ((2, 0) if state == "queued" else (1, 1))
        for wanted in ("queued", "answered"):
            listed = list_submissions(dispatcher, journal.database, states=(wanted,))  # type: ignore[arg-type]
            expected = {following.identifier: state, resumed.identifier: "queued"}
            assert {one.submission.identifier for one in listed} == {
                name for name, one in expected.items() if one == wanted
            }
