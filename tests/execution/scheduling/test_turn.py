"""The calls of one turn: which start early, wait, run alone or stay open, and their results."""

import asyncio
from typing import Any

import pytest

from ripieno.approvals import Approve, DeferredConfirmer, Deny, Edit, Given
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.events import Event, ExecutionBegan, ResultReady
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.execution import Circumstances, Execution
from ripieno.execution.budget import Budget
from ripieno.execution.scheduling.turn import Turn
from ripieno.models.protocols.openai_chat import PROTOCOL
from tests.support.scripted_models import Blocking, Hesitating, Person, Recording, ensemble, invoke, settle_down, tool
from tests.support.single_calls import raising
from tests.support.virtual_time import VirtualLoop

execute_invocations = PROTOCOL.invocations.execute_invocations


class Stage:
    """A turn over tools that note when they begin and end."""

    def __init__(
        self,
        *definitions: Definition,
        tools: Ensemble | None = None,
        limits: Limits | None = None,
        rules: Rules | None = None,
        allowed: tuple[str, ...] | None = None,
        patient: bool = True,
        **settings: Any,
    ) -> None:
        self.events: list[Event] = []
        self.budget = Budget(limits or Limits())
        self.execution = Execution(rules=rules or Rules(approve=("mine.*",)), **settings)
        self.offer = Offer.of([tools or ensemble(*definitions)])
        self.turn = Turn(
            execution=self.execution,
            offer=self.offer,
            scope=Circumstances(notify=self.events.append),
            budget=self.budget,
            allowed=allowed,
            patient=patient,
        )

    def seal(self, *names: str) -> None:
        """Seals calls of the form ``tool path``, which is their identifier, too."""
        for one in names:
            name, _, path = one.partition(" ")
            self.turn.seal(invoke(name, one, path=path))

    @property
    def fates(self) -> list[tuple[str, str | None]]:
        """For each call: its identifier, and its text, the category of its fault, or None."""
        return [(entry.invocation.identifier, fate(entry.result)) for entry in self.turn.entries]

    def text(self, place: int) -> str:
        """The result of the call at a place."""
        result = self.turn.entries[place].result
        assert result is not None
        return result.text

    @property
    def started(self) -> list[str]:
        return [event.invocation.identifier for event in self.events if isinstance(event, ExecutionBegan)]

    @property
    def early(self) -> list[str]:
        return [
            event.invocation.identifier for event in self.events if isinstance(event, ExecutionBegan) and event.early
        ]


def fate(result: ResultCanister | None) -> str | None:
    if result is None:
        return None
    return result.text if result.error is None else f"!{result.error.category}"


# What starts early.


@pytest.mark.parametrize(
    "policy", [{"effect": "write"}, {"effect": "destructive"}, {"effect": "write", "confirm": True}, {"terminal": True}]
)
async def test_a_barrier_and_all_after_it_wait(policy: dict[str, Any]) -> None:
    stage = Stage(
        tool("look"), tool("act", **policy), rules=Rules(approve=("mine.act",)), confirmer=Person(Approve(), Approve())
    )
    stage.seal("look a", "act b", "look c")
    await settle_down()
    assert stage.started == ["look a"]
    await stage.turn.finish()
    assert stage.started[:2] == ["look a", "act b"]


async def test_a_call_that_cannot_run_is_answered_at_once_and_is_no_barrier() -> None:
    stage = Stage(tool("look"), tool("erase"), rules=Rules(deny=("mine.erase",)))
    stage.seal("unknown a", "erase b", "look c")
    assert stage.fates == [("unknown a", "!unknown_tool"), ("erase b", "!denied"), ("look c", None)]
    assert stage.early == ["look c"]
    await stage.turn.finish()
    assert stage.budget.calls == 1


@pytest.mark.parametrize(("seconds", "refused"), [(60.0, 0), (0.0, 2)])
async def test_results_from_the_cache_are_no_repetitions(seconds: float, refused: int) -> None:
    stage = Stage(tool("look", cache=seconds), limits=Limits(repeats=3))
    for number in range(5):
        stage.turn.seal(invoke("look", f"call {number}", path="a"))
        await settle_down()
    await stage.turn.finish()
    assert [text for _, text in stage.fates] == ["look"] * (5 - refused) + ["!limit"] * refused


# Order.


async def test_results_are_ready_as_they_come_and_stand_in_the_models_order() -> None:
    slow = Blocking(value="slow")
    stage = Stage(tool("slow", slow), tool("quick"))
    stage.seal("slow a", "quick b")
    await settle_down()
    ready = [event.result.invocation_id for event in stage.events if isinstance(event, ResultReady)]
    assert ready == ["quick b"]
    slow.go.set()
    await stage.turn.finish()
    ready = [event.result.invocation_id for event in stage.events if isinstance(event, ResultReady)]
    assert ready == ["quick b", "slow a"]
    assert stage.fates == [("slow a", "slow"), ("quick b", "quick")]


# Terminal invokers.


@pytest.mark.parametrize("effect", ["none", "write"])
async def test_after_a_terminal_call_nothing_runs(effect: str) -> None:
    stage = Stage(tool("look"), tool("submit", effect=effect, terminal=True), tool("ask", hosted="caller"))
    stage.seal("look a", "submit b", "look c", "ask d", "unknown e")
    await stage.turn.finish()
    assert stage.fates == [
        ("look a", "look"),
        ("submit b", "submit"),
        ("look c", "!cancelled"),
        ("ask d", "!cancelled"),
        ("unknown e", "!cancelled"),
    ]
    assert [entry.accomplished for entry in stage.turn.entries] == [False, True, False, False, False]
    assert "submit came before it" in stage.text(2)


async def test_a_terminal_call_that_fails_ends_nothing() -> None:
    stage = Stage(tool("submit", raising(lambda: KeyError("x")), effect="none", terminal=True), tool("look"))
    stage.seal("submit a", "look b")
    await stage.turn.finish()
    assert stage.fates == [("submit a", "!execution"), ("look b", "look")]


# What may be called.


async def test_only_allowed_tools_may_be_called_whoever_hosts_them() -> None:
    stage = Stage(tool("look"), tool("find"), tool("ask", hosted="caller"), allowed=("look",))
    stage.seal("find a", "look b", "ask c", "unknown d")
    await stage.turn.finish()
    assert stage.fates == [("find a", "!denied"), ("look b", "look"), ("ask c", "!denied"), ("unknown d", "!denied")]
    assert "'find' may not be called in this turn; allowed: look." in stage.text(0)


# Limits.


async def test_nobody_is_asked_about_a_call_that_a_limit_refuses() -> None:
    person = Person(Approve(), Approve())
    stage = Stage(tool("act", effect="write"), limits=Limits(calls=1), rules=Rules(), confirmer=person)
    stage.seal("act a", "act b")
    await stage.turn.finish()
    assert [one.invocation for one in person.requests] == ["act a"]
    assert stage.fates == [("act a", "act"), ("act b", "!limit")]


def test_nobody_is_waited_for_longer_than_the_run_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait() -> Stage:
        limits = Limits(wall=0.05)
        stage = Stage(tool("act", effect="write"), tool("look"), limits=limits, rules=Rules(), confirmer=Hesitating())
        stage.seal("act a", "look b")
        await stage.turn.finish()
        return stage

    # On a loaded machine, the time of the run could end before it waits.
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        monkeypatch.setattr("time.monotonic", runner.get_loop().time)
        stage = runner.run(wait())
    assert stage.fates == [("act a", "!limit"), ("look b", "!limit")]
    assert "The call was not run: the confirmation was not answered in time." in stage.text(0)
    assert stage.budget.exhausted == "0.05 s"


async def test_a_denied_call_does_not_count() -> None:
    stage = Stage(tool("act", effect="write"), tool("look"), limits=Limits(calls=1), rules=Rules())
    stage.seal("act a", "look b")
    await stage.turn.finish()
    assert stage.fates == [("act a", "!denied"), ("look b", "look")]


async def test_what_cannot_be_recorded_is_answered_and_does_not_count() -> None:
    stage = Stage(tool("act", effect="write"), recorder=Recording(lambda record: record.stage == "started"))
    stage.seal("act a")
    await stage.turn.finish()
    assert stage.fates == [("act a", "!resource")]
    assert stage.budget.calls == 0


# Turns that end early.


async def test_a_cut_lets_what_runs_end_and_begins_nothing() -> None:
    blocking = Blocking()
    stage = Stage(tool("look", blocking), tool("act", effect="write"), tool("ask", hosted="caller"))
    stage.seal("look a", "act b", "ask c")
    task = asyncio.create_task(stage.turn.cut("length"))
    await settle_down()
    assert not task.done()
    blocking.go.set()
    await task
    assert stage.fates == [("look a", "late"), ("act b", "!cancelled"), ("ask c", "!cancelled")]
    assert "the answer ended with 'length'" in stage.text(1)


async def test_dropping_may_be_cancelled_and_still_ends_everything() -> None:
    blocking, recording = Blocking(), Recording()
    stage = Stage(tool("look", blocking), tool("look2", Blocking()), recorder=recording)
    stage.seal("look a", "look2 b")
    await blocking.began.wait()
    task = asyncio.create_task(stage.turn.drop())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [stage_ for stage_, _ in recording.stages].count("discarded") == 2
    assert blocking.running == 0


# Calls without a run: ``execute_invocations`` of a protocol.


async def test_one_that_is_hosted_elsewhere_is_refused_before_anything_runs() -> None:
    blocking, away = Blocking(), tool("away", hosted="caller")
    with pytest.raises(InputError, match=r"mine\.away is run by the caller"):
        await execute_invocations([invoke("look", "a"), invoke("away", "b")], [ensemble(tool("look", blocking), away)])
    await settle_down()
    assert not blocking.began.is_set()


async def test_each_has_its_result_whatever_the_others_come_to() -> None:
    results = await execute_invocations(
        [invoke("look", "a"), invoke("nowhere", "b"), invoke("change", "c"), invoke("look", "d")],
        [ensemble(tool("look"), tool("change", effect="write"))],
        Execution(limits=Limits(calls=1)),
    )
    assert [one.invocation_id for one in results] == ["a", "b", "c", "d"]
    assert [fate(one) for one in results][1:] == ["!unknown_tool", "!limit", "!limit"]


async def test_cancelling_cancels_them() -> None:
    blocking = Blocking()
    playing = ensemble(tool("wait", blocking))
    waiting = asyncio.create_task(execute_invocations([invoke("wait", "a"), invoke("wait", "b")], [playing]))
    await settle_down()
    assert blocking.running == 2
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert blocking.running == 0


# Deferred calls.


def deferring(**settings: Any) -> Stage:
    return Stage(
        tool("write", effect="write", writes=("file:{path}",)),
        tool("free", effect="write", writes=("file:{path}",)),
        tool("read", reads=("file:{path}",)),
        tool("act", effect="write"),
        tool("submit", effect="none", terminal=True),
        tool("ask", hosted="caller"),
        tool("search", hosted="provider"),
        rules=Rules(approve=("mine.free",)),
        confirmer=DeferredConfirmer(),
        **settings,
    )


OPEN: dict[str, tuple[str, list[str], list[tuple[str, str]]]] = {
    "only what conflicts stays open behind a deferred call": (
        "write a, read a, read b, free a/x, free c, free a/x/y",
        ["read b", "free c"],
        [("write a", "approval"), ("read a", "behind"), ("free a/x", "behind"), ("free a/x/y", "behind")],
    ),
    "each question is deferred for itself": (
        "write a, write b, write a",
        [],
        [("write a", "approval"), ("write b", "approval"), ("write a", "behind")],
    ),
    "all stay open behind a call that may touch anything": (
        "read a, act 1, read b, ask 2, search 3, free c, nowhere 4",
        ["read a"],
        [
            ("act 1", "approval"),
            ("read b", "behind"),
            ("ask 2", "caller"),
            ("free c", "behind"),
            ("nowhere 4", "behind"),
        ],
    ),
    "the end of the run waits for what is open": (
        "write a, submit b, read c",
        [],
        [("write a", "approval"), ("submit b", "behind"), ("read c", "behind")],
    ),
    "calls of the caller hold up nothing": ("ask a, free b, read b", ["free b", "read b"], [("ask a", "caller")]),
}


@pytest.mark.parametrize("name", OPEN)
async def test_what_stays_open(name: str) -> None:
    calls, started, left = OPEN[name]
    stage = deferring()
    stage.seal(*calls.split(", "))
    await stage.turn.finish()
    assert stage.started == started
    assert [(invocation.identifier, why) for invocation, why in stage.turn.open] == left
    assert [entry.deferred is not None for entry in stage.turn.entries] == [
        entry.why == "approval" for entry in stage.turn.entries
    ]
    assert stage.budget.calls == len(started)
    assert not any(entry.accomplished for entry in stage.turn.entries)


async def test_cancelling_gives_open_calls_their_results_as_well() -> None:
    stage = deferring()
    stage.seal("write a", "read a", "free b")
    await stage.turn.finish()
    await stage.turn.cancel()
    assert stage.fates == [("write a", "!cancelled"), ("read a", "!cancelled"), ("free b", "free")]
    assert stage.turn.open == ()


async def test_what_stayed_open_is_run_by_another_turn_with_the_answer() -> None:
    stage = deferring()
    stage.seal("write a", "read a", "free b")
    await stage.turn.finish()
    deferred = stage.turn.entries[0].deferred
    assert deferred is not None
    again = deferring()
    given = {"write a": Given(answer=Approve(), binding=deferred.binding)}
    around = Circumstances(notify=again.events.append, answers=given)
    again.turn = Turn(execution=again.execution, offer=again.offer, scope=around, budget=stage.budget)
    for invocation, _ in stage.turn.open:
        again.turn.seal(invocation)
    await again.turn.finish()
    assert again.fates == [("write a", "write"), ("read a", "read")]
    assert (again.started, again.turn.open, stage.budget.calls) == (["write a", "read a"], (), 3)


# What a person allows with "always" also counts for the calls of the same answer whose turn is still to come.


ALWAYS: dict[str, tuple[Any, str, list[str]]] = {
    "any arguments": (Approve(always=True), "write a, write b, write a", ["write a"]),
    "not what a rule asks about": (
        Approve(always=True),
        "write a, write docs, write c",
        ["write a", "write docs"],
    ),
    "not another tool": (Approve(always=True), "write a, act b, write c", ["write a", "act b"]),
    "exactly these arguments": (
        Approve(always=True, exact=True),
        "write a, write b, write a",
        ["write a", "write b"],
    ),
    "a destructive tool with exactly these arguments": (
        Approve(always=True),
        "erase a, erase b, erase a",
        ["erase a", "erase b"],
    ),
    "not what is confirmed each time": (Approve(always=True), "sure a, sure a", ["sure a", "sure a"]),
    "not after a plain yes": (Approve(), "write a, write b", ["write a", "write b"]),
}


@pytest.mark.parametrize("name", ALWAYS)
async def test_always_counts_for_the_calls_of_the_same_answer_that_it_covers(name: str) -> None:
    first, calls, asked = ALWAYS[name]
    person = Person(first, Approve(), Approve())
    stage = Stage(
        tool("write", effect="write", writes=("file:{path}",)),
        tool("act", effect="write", writes=("file:{path}",)),
        tool("erase", effect="destructive", writes=("file:{path}",)),
        tool("sure", effect="write", confirm=True, writes=("file:{path}",)),
        rules=Rules(ask=("mine.write(path=docs)",)),
        confirmer=person,
    )
    stage.seal(*calls.split(", "))
    await stage.turn.finish()
    assert [request.invocation for request in person.requests] == asked
    assert stage.started == calls.split(", ")


async def test_always_changes_nothing_for_a_call_with_an_answer_of_its_own() -> None:
    stage = deferring()
    stage.seal("write a", "write b", "write c")
    await stage.turn.finish()
    first, _, third = (entry.deferred for entry in stage.turn.entries)
    assert first is not None
    assert third is not None
    again = deferring()
    given: dict[str, Any] = {
        "write a": Given(answer=Approve(always=True), binding=first.binding),
        "write b": Deny(),
        # An answer to another question is none: the call is asked about again.
        "write c": Given(answer=Edit({"path": "d"}), binding=first.binding),
    }
    around = Circumstances(notify=again.events.append, answers=given)
    again.turn = Turn(execution=again.execution, offer=again.offer, scope=around, budget=stage.budget)
    again.seal("write a", "write b", "write c", "write e")
    await again.turn.finish()
    assert again.fates == [("write a", "write"), ("write b", "!denied"), ("write c", None), ("write e", "write")]


@pytest.mark.parametrize("call", ["write a", "free a"])
async def test_the_answer_to_a_call_counts_whatever_has_been_allowed_since(call: str) -> None:
    stage = deferring()
    around = Circumstances(answers={call: Deny("Not this one.")})
    allowances = stage.execution.allowances
    allowances.add(around, allowances.make("mine.write", "write", {"path": "a"}, exact=False))
    stage.turn = Turn(execution=stage.execution, offer=stage.offer, scope=around, budget=stage.budget)
    stage.seal(call, "write b")
    await stage.turn.finish()
    assert stage.fates == [(call, "!denied"), ("write b", "write")]


async def test_where_nothing_can_stay_open_it_is_denied() -> None:
    stage = deferring(patient=False)
    stage.seal("write a", "read a")
    await stage.turn.finish()
    assert stage.fates == [("write a", "!denied"), ("read a", "read")]
