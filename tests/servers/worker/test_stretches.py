"""One stretch of a submitted conversation: said once, conducted to its end or a question, continued after an answer."""

import asyncio
import dataclasses
import datetime
import os
import pathlib
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from ripieno.approvals import Approve, Deny
from ripieno.approvals.recorded_allowances import recorded_allowances
from ripieno.assembly import Assembly
from ripieno.canisters import Conversation, ResultCanister, TextualContent, UserCanister
from ripieno.canisters.events import Alert, ConductEnded, Event, TextDelta
from ripieno.conducting.paused import PausedStore
from ripieno.models import Model
from ripieno.servers.worker.stretches import Stretches
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import Ending, Submission
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from ripieno.testing import call, model_of, turn
from tests.support.workers import Site, assembly_of, check, model, submission

#: Seconds after which a test counts as hung.
HANG = 60


@dataclasses.dataclass(kw_only=True)
class Bench:
    """The stretches of a worker without a queue."""

    site: Site
    journal: Journal
    assembly: Assembly
    answers: list[Model] = dataclasses.field(default_factory=list[Model])

    def __post_init__(self) -> None:
        self.stretches = Stretches(self.assembly, self.journal, self._model)
        self.paused = PausedStore(self.journal.database)
        self.log = EventLog(self.journal.database)

    def _model(self, name: str) -> Model:
        return self.answers.pop(0) if self.answers else model(name)

    async def conduct(self, one: Submission) -> Ending | None:
        async with asyncio.timeout(HANG):
            return await self.stretches.conduct(one)

    def events(self, one: Submission) -> list[Event]:
        return [event for _, event in self.log.after(one, 0)]


@pytest.fixture
def site(place: pathlib.Path | str, tmp_path: pathlib.Path) -> Site:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Site(place=place, folder=folder, host=f"host-{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def bench(site: Site, request: pytest.FixtureRequest) -> AsyncGenerator[Bench, None]:
    approved: bool = getattr(request, "param", True)
    with site.journal() as journal:
        async with assembly_of(site, journal, approved=approved) as assembly:
            yield Bench(site=site, journal=journal, assembly=assembly)


unapproved: Any = pytest.mark.parametrize("bench", [False], indirect=True)


async def test_a_submission_is_conducted_to_its_end(bench: Bench, site: Site) -> None:
    one = submission("c", "h")
    assert await bench.conduct(one) == Ending(finish="stop")
    assert check(site, bench.journal, "c") == 0
    assert len(site.words()) == len(set(site.words())) == 8
    assert bench.journal.verify() is None
    events = bench.events(one)
    assert isinstance(events[-1], ConductEnded)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).endswith("All is written.")


async def test_dispatched_again_after_its_end_it_runs_nothing(bench: Bench, site: Site) -> None:
    one = submission("c", "h")
    await bench.conduct(one)
    words, lines = site.words(), bench.journal.count()
    assert await bench.conduct(one) == Ending(finish="stop")
    assert (site.words(), bench.journal.count()) == (words, lines)


class Interrupted(Journal):
    """The journal of a worker that is killed after the last answer."""

    def record(self, records: Sequence[Record]) -> None:
        super().record([one for one in records if one.stage != "ended"])


@pytest.mark.parametrize("given_back", [False, True])
async def test_after_the_last_answer_of_a_worker_that_ended_the_model_is_not_asked_again(
    bench: Bench, site: Site, *, given_back: bool
) -> None:
    one = submission("c", "h")
    with Interrupted(site.place) as journal:
        async with assembly_of(site, journal, approved=True) as assembly:
            await Stretches(assembly, journal, model).conduct(one)
    if given_back:
        # As it waited until the last answer was recorded.
        *_, last = bench.journal.lines("c")
        details = {"finish": "cancelled"}
        bench.journal.record([Record(stage="ended", conversation="c", turn=last.turn, owner="", details=details)])
    before = len(list(bench.journal.lines("c")))
    assert await bench.conduct(one) == Ending(finish="stop")
    assert [line.stage for line in bench.journal.lines("c")][before:] == ["ended"]
    assert check(site, bench.journal, "c") == 0
    assert await bench.conduct(one) == Ending(finish="stop")
    assert [line.stage for line in bench.journal.lines("c")][before:] == ["ended"]


class Away(Journal):
    """The journal of a worker whose database is away as it begins, and that is killed after the last answer."""

    def record(self, records: Sequence[Record]) -> None:
        if any(one.stage == "began" for one in records):
            raise Disconnected("The server is away.")
        super().record([one for one in records if one.stage != "ended"])


async def test_a_run_whose_beginning_cannot_be_recorded_is_tried_again(bench: Bench, site: Site) -> None:
    """The next worker would say its message once more."""
    one = submission("c", "h")
    with Away(site.place) as journal:
        async with assembly_of(site, journal, approved=True) as assembly:
            assert await Stretches(assembly, journal, model).conduct(one) is None
    assert (site.words(), bench.journal.count()) == ([], 0)
    assert await bench.conduct(one) == Ending(finish="stop")
    assert check(site, bench.journal, "c") == 0
    assert len(site.words()) == len(set(site.words())) == 8


async def test_later_submissions_continue_the_conversation(bench: Bench) -> None:
    bench.answers += [model_of([turn("One.")]), model_of([turn("Two.")])]
    await bench.conduct(submission("c", "h", "First?"))
    await bench.conduct(submission("c", "h", "Second?", identifier="another"))
    canisters = bench.journal.restore("c").conversation.canisters
    assert [one.content[0].text for one in canisters if isinstance(one, UserCanister)] == ["First?", "Second?"]  # type: ignore[union-attr]


async def test_owners_with_the_same_name_of_a_conversation_are_apart(bench: Bench) -> None:
    bench.answers += [model_of([turn("For Ada.")]), model_of([turn("For Bob.")])]
    for owner in ("ada", "bob"):
        one = submission("c", "h", f"I am {owner}.", owner=owner, identifier=owner)
        assert await bench.conduct(one) == Ending(finish="stop")
    assert bench.journal.restore("c", owner="ada").conversation.text == "For Ada."
    assert bench.journal.restore("c", owner="bob").conversation.text == "For Bob."


@unapproved
async def test_a_call_that_needs_approval_ends_the_stretch_and_an_answer_begins_the_next(
    bench: Bench, site: Site
) -> None:
    one = submission("c", "h", owner="ada")
    bench.answers += [model_of([turn("I write.", calls=[call("append", word="w")]), turn("Done.")])] * 2
    assert await bench.conduct(one) == Ending(finish="open")
    assert site.words() == []
    kept = bench.paused.load("c", owner="ada")
    assert kept is not None
    assert kept.next_submission is None
    (waiting,) = kept.unanswered
    changed = bench.paused.answer("c", {waiting.invocation: Approve()}, owner="ada")
    following = changed.next_submission
    assert following is not None
    # The same answers give the same identifier, so that a queue takes them once.
    again = bench.paused.load("c", owner="ada")
    assert again is not None
    assert again.next_submission == following
    assert (following.owner, following.host, following.canisters) == ("ada", "h", ())
    assert await bench.conduct(following) == Ending(finish="stop")
    assert site.words() == ["c:w"]
    assert bench.paused.load("c", owner="ada") is None
    assert await bench.conduct(following) == Ending(finish="stop")
    assert site.words() == ["c:w"]


NOTE = [turn("I write.", calls=[call("note", word="w")]), turn("Done.")]


async def allow(bench: Bench, *, conversation: str = "c", exact: bool = False) -> None:
    """Conducts a run until it asks, allows such calls, and conducts it to its end."""
    bench.answers += [model_of(NOTE)] * 2
    assert await bench.conduct(submission(conversation, "h")) == Ending(finish="open")
    (paused,) = bench.paused.all()
    (waiting,) = paused.unanswered
    changed = bench.paused.answer(conversation, {waiting.invocation: Approve(always=True, exact=exact)})
    assert changed.next_submission is not None
    assert await bench.conduct(changed.next_submission) == Ending(finish="stop")


@unapproved
async def test_what_is_allowed_always_counts_in_later_stretches_of_any_worker(
    bench: Bench, site: Site, tmp_path: pathlib.Path
) -> None:
    await allow(bench)
    with site.journal() as journal:
        async with assembly_of(site, journal, approved=False) as assembly:
            other = Bench(site=site, journal=journal, assembly=assembly)
            finishes: list[str | None] = []
            for name, fields in (
                ("c", {}),
                # Another conversation, another owner, and another workspace.
                ("d", {}),
                ("c", {"owner": "ada"}),
                ("c", {"workspace": str(tmp_path)}),
            ):
                other.answers.append(model_of(NOTE))
                ending = await other.conduct(submission(name, "h", identifier=uuid.uuid4().hex, **fields))
                finishes.append(ending and ending.finish)
            assert finishes == ["stop", "open", "open", "open"]
            assert assembly.execution.allowances.conversations == []
    assert site.words("note") == ["c:w", "c:w"]


@unapproved
async def test_what_is_taken_back_is_asked_about_again_also_by_a_worker_under_way(bench: Bench, site: Site) -> None:
    await allow(bench)
    os.mkfifo(site.folder / "pipe")
    bench.answers.append(model_of([turn("I wait.", calls=[call("gate", word="pipe")]), *NOTE]))
    going = asyncio.create_task(bench.conduct(submission("c", "h", identifier="another")))
    while not [one for one in bench.journal.lines("c", stage="started") if one.tool == "mine.gate"]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    with site.journal() as other:
        ((allowance,),) = recorded_allowances(other).values()
        await bench.stretches.allowed.take_back()
        assert bench.assembly.execution.allowances.conversations == [("", "c")]
        other.record([allowance.revocation("", "c")])
        assert recorded_allowances(other) == {}
    await bench.stretches.allowed.take_back()
    await asyncio.to_thread(lambda: open(site.folder / "pipe", "wb").close())
    assert await going == Ending(finish="open")
    assert site.words("note") == ["c:w"]


@unapproved
async def test_what_is_allowed_ends_after_seven_days_and_with_its_conversation(bench: Bench) -> None:
    await allow(bench, exact=True)
    ((allowance,),) = recorded_allowances(bench.journal).values()
    assert str(allowance) == 'mine.note with exactly {"word":"w"}'
    assert allowance.until == allowance.at + datetime.timedelta(days=7)
    bench.journal.delete("c")
    assert recorded_allowances(bench.journal) == {}
    bench.assembly.execution.allowances.lifetime = datetime.timedelta()
    await allow(bench, conversation="d")
    assert recorded_allowances(bench.journal) == {}


@unapproved
async def test_a_question_that_was_not_kept_is_asked_again(bench: Bench, site: Site) -> None:
    """Its worker was killed after it had recorded the end of the stretch."""
    one = submission("c", "h")
    bench.answers += [model_of(NOTE)] * 3
    assert await bench.conduct(one) == Ending(finish="open")
    bench.paused.forget("c")
    assert await bench.conduct(one) == Ending(finish="open")
    (paused,) = bench.paused.all()
    (waiting,) = paused.unanswered
    following = bench.paused.answer("c", {waiting.invocation: Approve()}).next_submission
    assert following is not None
    assert await bench.conduct(following) == Ending(finish="stop")
    assert await bench.conduct(one) == Ending(finish="open")
    assert site.words("note") == ["c:w"]
    assert not bench.paused.all()


@unapproved
async def test_a_second_question_that_was_not_kept_is_asked_again(bench: Bench, site: Site) -> None:
    """Its worker was killed after it had recorded the end of the stretch: what is kept is the first question."""
    bench.answers += [model_of([NOTE[0], turn("And I write.", calls=[call("note", word="x")]), NOTE[1]])] * 4
    assert await bench.conduct(submission("c", "h")) == Ending(finish="open")
    (first,) = bench.paused.all()
    answered = bench.paused.answer("c", {first.unanswered[0].invocation: Approve()})
    second = answered.next_submission
    assert second is not None
    assert await bench.conduct(second) == Ending(finish="open")
    bench.paused.save(answered)
    assert await bench.conduct(second) == Ending(finish="open")
    (paused,) = bench.paused.all()
    assert paused.submission == second
    following = bench.paused.answer("c", {one.invocation: Approve() for one in paused.unanswered}).next_submission
    assert following is not None
    assert await bench.conduct(following) == Ending(finish="stop")
    assert site.words("note") == ["c:w", "c:x"]
    assert not bench.paused.all()


@unapproved
async def test_a_denied_call_is_not_run_and_the_model_reads_why(bench: Bench, site: Site) -> None:
    bench.answers += [model_of([turn("I write.", calls=[call("append", word="w")]), turn("Then not.")])] * 2
    await bench.conduct(submission("c", "h"))
    changed = bench.paused.answer("c", {bench.paused.all()[0].unanswered[0].invocation: Deny("Not now.")})
    assert changed.next_submission is not None
    assert await bench.conduct(changed.next_submission) == Ending(finish="stop")
    conversation = bench.journal.restore("c").conversation
    (result,) = (one for one in conversation.canisters if isinstance(one, ResultCanister))
    assert result.error is not None
    assert "Not now." in str(result.error)
    assert site.words() == []


@unapproved
async def test_a_message_instead_of_an_answer_declines_the_call(bench: Bench, site: Site) -> None:
    bench.answers += [model_of([turn("I write.", calls=[call("append", word="w")])]), model_of([turn("As you like.")])]
    await bench.conduct(submission("c", "h"))
    assert await bench.conduct(submission("c", "h", "No, stop.", identifier="other")) == Ending(finish="stop")
    assert bench.journal.restore("c").conversation.text == "As you like."
    assert site.words() == []


async def test_a_tool_that_asks_says_that_no_one_can_answer_and_how_to_go_on(bench: Bench) -> None:
    bench.answers += [
        model_of([turn("I ask.", calls=[call("inquire", word="colour")]), turn("Which colour?")]),
        model_of([turn("Red it is.")]),
    ]
    one = submission("c", "h")
    assert await bench.conduct(one) == Ending(finish="stop")
    (alert,) = [event for event in bench.events(one) if isinstance(event, Alert)]
    assert alert.tool == "mine.inquire"
    assert alert.message.endswith("what it asked: Which colour? Continue the conversation with the answer.")
    (result,) = [each for each in bench.journal.restore("c").conversation.canisters if isinstance(each, ResultCanister)]
    declined, why = (content.text for content in result.content if isinstance(content, TextualContent))
    assert declined == "The user declined."
    assert why.startswith(" The tool asked"), "wires join them as they are"
    assert "end with the question as your own: the next message of the user has it" in why
    assert await bench.conduct(submission("c", "h", "Red.", identifier="answer")) == Ending(finish="stop")


async def test_after_a_crash_the_message_is_not_said_again(bench: Bench, site: Site) -> None:
    one = submission("c", "h")
    # The beginning of an earlier worker's run, which is killed within its first call.
    bench.answers.append(model_of([turn("I write.", calls=[call("append", word="w")]), turn("Done.")]))
    run = bench.assembly.conduct(
        Conversation(identifier="c").say(one.canisters), model=bench.answers.pop(), owner=one.owner
    )
    run.carry_out(one.identifier)
    async with run:
        async for event in run:
            if type(event).__name__ == "ExecutionBegan":
                break
    with bench.journal.database.using("written") as connection:
        connection.execute("DELETE FROM lines WHERE stage IN ('finished', 'ended')")
    bench.journal.close()
    assert await bench.conduct(one) == Ending(finish="stop")
    conversation = bench.journal.restore("c").conversation
    assert sum(isinstance(each, UserCanister) for each in conversation.canisters) == 1
    results = [each for each in conversation.canisters if isinstance(each, ResultCanister)]
    assert results[0].error is not None
    assert results[0].error.category == "outcome_unknown"


async def test_what_the_worker_does_not_have_is_logged_and_its_worker_is_named(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.stretches = Stretches(bench.assembly, bench.journal, lambda name: name, worker="one-4711")
    ended = await bench.conduct(submission("c", "h", model="nowhere/m"))
    assert ended is not None
    assert "no provider named 'nowhere'" in ended.reason
    assert ended.reason.endswith(" (in the configuration of the worker one-4711)")
    (line,) = [one for one in caplog.records if one.name.endswith("worker.stretches")]
    assert (line.levelname, line.getMessage()) == ("WARNING", f"The run failed: {ended.reason}")


async def test_what_fails_says_why_and_raises_nothing(bench: Bench) -> None:
    ended = await bench.conduct(submission("c", "h", tools=("nowhere.*",)))
    assert ended is not None
    assert ended.finish == "error"
    assert "nowhere.*" in ended.reason


@unapproved
async def test_a_run_that_fails_before_it_begins_leaves_its_calls_waiting(bench: Bench, site: Site) -> None:
    bench.answers += [model_of([turn("I write.", calls=[call("append", word="w")]), turn("Done.")])]
    await bench.conduct(submission("c", "h"))
    (paused,) = bench.paused.all()
    answers = {one.invocation: Approve() for one in paused.unanswered}
    following = bench.paused.answer("c", answers).next_submission
    assert following is not None
    failed = await bench.conduct(dataclasses.replace(following, tools=("nowhere.*",)))
    assert failed is not None
    assert failed.finish == "error"
    (again,) = bench.paused.all()
    assert (again.answers, len(again.unanswered), again.attempt) == ({}, 1, 1)
    # What an earlier worker has begun keeps its answers: its calls may have run.
    second = bench.paused.answer("c", answers).next_submission
    assert second is not None
    details = {"submitted": second.identifier}
    bench.journal.record([Record(stage="began", conversation="c", turn=1, details=details)])
    await bench.conduct(dataclasses.replace(second, tools=("nowhere.*",)))
    (kept,) = bench.paused.all()
    assert kept.next_submission == second
    assert site.words() == []


@unapproved
async def test_a_run_that_is_cancelled_before_it_begins_leaves_its_calls_waiting(bench: Bench, site: Site) -> None:
    bench.answers += [model_of(NOTE)] * 2
    await bench.conduct(submission("c", "h"))
    (paused,) = bench.paused.all()
    answers = {one.invocation: Approve() for one in paused.unanswered}
    following = bench.paused.answer("c", answers).next_submission
    assert following is not None
    with site.journal() as other:
        # Such as that of a worker that has died, until its lease ends.
        claim = other.database.claimed("", "c")
        assert await asyncio.to_thread(claim.__enter__)
        going = asyncio.create_task(bench.conduct(following))
        while not bench.stretches.running:  # noqa: ASYNC110  in another task
            await asyncio.sleep(0)
        bench.stretches.stop(following.identifier)
        await asyncio.to_thread(claim.__exit__, None, None, None)
        assert await going == Ending(finish="cancelled")
    (again,) = bench.paused.all()
    assert (again.answers, len(again.unanswered), again.attempt) == ({}, 1, 1)
    second = bench.paused.answer("c", answers).next_submission
    assert second is not None

    def stop(name: str) -> Model:
        stretches.stop(second.identifier)
        return model(name)

    stretches = Stretches(bench.assembly, bench.journal, stop)
    assert await stretches.conduct(second) == Ending(finish="cancelled")
    (again,) = bench.paused.all()
    assert (again.answers, len(again.unanswered), again.attempt) == ({}, 1, 2)
    third = bench.paused.answer("c", answers).next_submission
    assert third is not None
    assert await bench.conduct(third) == Ending(finish="stop")
    assert site.words("note") == ["c:w"]


async def test_a_worker_that_leaves_gives_back_what_it_has_not_begun(bench: Bench) -> None:
    await bench.stretches.leave(0)
    assert await bench.conduct(submission("c", "h")) is None


async def test_a_stretch_waits_while_another_process_conducts_the_conversation(bench: Bench, site: Site) -> None:
    with site.journal() as other:
        claim = other.database.claimed("", "c")
        assert await asyncio.to_thread(claim.__enter__)
        going = asyncio.create_task(bench.conduct(submission("c", "h")))
        while not bench.stretches.running:  # noqa: ASYNC110  in another task
            await asyncio.sleep(0)
        await asyncio.to_thread(claim.__exit__, None, None, None)
        assert await going == Ending(finish="stop")


async def test_a_run_that_comes_back_to_its_worker_is_conducted_once(bench: Bench, site: Site) -> None:
    """Another worker took this one for dead, whose lease had ended, and this one took the run again."""
    one = submission("c", "h")
    first = asyncio.create_task(bench.conduct(one))
    while not site.words():  # noqa: ASYNC110  in another task
        await asyncio.sleep(0)
    if bench.journal.remote:
        with bench.journal.database.using("written") as connection:
            assert connection.execute("UPDATE claims SET until = 1").rowcount == 1
    assert not first.done()
    assert await asyncio.gather(first, bench.conduct(one)) == [Ending(finish="stop")] * 2
    assert len(site.words()) == len(set(site.words())) == 8
    assert check(site, bench.journal, "c") == 0
    assert len(list(bench.journal.lines("c", stage="ended"))) == 1
    assert bench.stretches.running == ()


async def test_stopped_while_it_waits_it_says_nothing(bench: Bench, site: Site) -> None:
    one = submission("c", "h")
    with site.journal() as other, other.database.claimed("", "c"):
        going = asyncio.create_task(bench.conduct(one))
        while not bench.stretches.running:  # noqa: ASYNC110  in another task
            await asyncio.sleep(0)
        bench.stretches.stop(one.identifier)
        assert await going == Ending(finish="cancelled")
    assert bench.journal.count() == 0


async def test_one_that_waits_for_another_of_its_conversation_is_under_way_and_can_be_stopped(
    bench: Bench, site: Site
) -> None:
    """They were in two queues, or one was for later."""
    os.mkfifo(site.folder / "pipe")
    bench.answers.append(model("house/gate"))
    first = asyncio.create_task(bench.conduct(submission("c", "h", identifier="first")))
    with await asyncio.to_thread(open, site.folder / "pipe", "wb"):
        second = asyncio.create_task(bench.conduct(submission("c", "h", identifier="second")))
        await asyncio.sleep(0)
        assert bench.stretches.running == ("first", "second")
        bench.stretches.stop("second")
    assert await first == Ending(finish="stop")
    assert await second == Ending(finish="cancelled")
    assert bench.stretches.running == ()
    assert len(list(bench.journal.lines("c", stage="began"))) == 1


async def test_stopped_in_a_call_each_call_has_its_result(bench: Bench) -> None:
    one = submission("c", "h")
    going = asyncio.create_task(bench.conduct(one))
    while not site_began(bench):  # noqa: ASYNC110  in another task
        await asyncio.sleep(0)
    bench.stretches.stop(one.identifier)
    ended = await going
    assert ended in (Ending(finish="cancelled"), Ending(finish="stop"))
    restored = bench.journal.restore("c")
    assert restored.ended
    assert not restored.conversation.open


def site_began(bench: Bench) -> bool:
    """Whether the run has begun to call tools."""
    return next(iter(bench.journal.lines(stage="started", limit=1)), None) is not None


async def test_no_secret_is_in_events_not_even_in_pieces(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct-horse-battery"
    with Journal(site.place, secrets=[secret]) as journal:
        async with assembly_of(site, journal, approved=True) as assembly:
            bench = Bench(site=site, journal=journal, assembly=assembly)
            bench.answers.append(model_of([turn(f"The key is {secret}, they say.")]))
            one = submission("c", "h")
            await bench.conduct(one)
            text = "".join(event.text for event in bench.events(one) if isinstance(event, TextDelta))
    assert secret not in text
    assert text.startswith("The key is [secret")
    assert text.endswith(", they say.")
