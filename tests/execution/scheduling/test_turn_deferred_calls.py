"""Deferred calls: which other calls stay open with them, and which run."""

from typing import Any

from ripieno.approvals import Approve, DeferredConfirmer, Given
from ripieno.canisters.controls import Rules
from ripieno.execution import Circumstances
from ripieno.execution.scheduling.turn import Turn
from tests.execution.scheduling.test_turn import Stage
from tests.support.scripted_models import invoke, tool


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


def seal(stage: Stage, *calls: str) -> None:
    for one in calls:
        name, _, path = one.partition(" ")
        stage.turn.seal(invoke(name, one, path=path))


def opened(stage: Stage) -> list[tuple[str, str]]:
    return [(invocation.identifier, why) for invocation, why in stage.turn.open]


async def test_only_what_conflicts_stays_open_behind_a_deferred_call() -> None:
    stage = deferring()
    seal(stage, "write a", "read a", "read b", "free a/x", "free c", "free a/x/y")
    await stage.turn.finish()
    assert stage.started == ["read b", "free c"]
    assert opened(stage) == [
        ("write a", "approval"),
        ("read a", "behind"),
        ("free a/x", "behind"),
        ("free a/x/y", "behind"),
    ]
    assert [entry.deferred is not None for entry in stage.turn.entries] == [True, *[False] * 5]
    assert stage.budget.calls == 2


async def test_each_question_is_deferred_for_itself() -> None:
    stage = deferring()
    seal(stage, "write a", "write b", "write a")
    await stage.turn.finish()
    assert [why for _, why in opened(stage)] == ["approval", "approval", "behind"]


async def test_all_stay_open_behind_a_call_that_may_touch_anything() -> None:
    stage = deferring()
    seal(stage, "read a", "act 1", "read b", "ask 2", "search 3", "free c", "nowhere 4")
    await stage.turn.finish()
    assert stage.started == ["read a"]
    assert opened(stage) == [
        ("act 1", "approval"),
        ("read b", "behind"),
        ("ask 2", "caller"),
        ("free c", "behind"),
        ("nowhere 4", "behind"),
    ]


async def test_the_end_of_the_run_waits_for_what_is_open() -> None:
    stage = deferring()
    seal(stage, "write a", "submit b", "read c")
    await stage.turn.finish()
    assert opened(stage) == [("write a", "approval"), ("submit b", "behind"), ("read c", "behind")]
    assert not any(entry.accomplished for entry in stage.turn.entries)


async def test_calls_of_the_caller_hold_up_nothing() -> None:
    stage = deferring()
    seal(stage, "ask a", "free b", "read b")
    await stage.turn.finish()
    assert stage.started == ["free b", "read b"]
    assert opened(stage) == [("ask a", "caller")]


async def test_cancelling_gives_open_calls_their_results_as_well() -> None:
    stage = deferring()
    seal(stage, "write a", "read a", "free b")
    await stage.turn.finish()
    await stage.turn.cancel()
    assert stage.fates == [("write a", "!cancelled"), ("read a", "!cancelled"), ("free b", "free")]
    assert stage.turn.open == ()


async def test_what_stayed_open_is_run_by_another_turn_with_the_answer() -> None:
    stage = deferring()
    seal(stage, "write a", "read a", "free b")
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


async def test_where_nothing_can_stay_open_it_is_denied() -> None:
    stage = deferring(patient=False)
    seal(stage, "write a", "read a")
    await stage.turn.finish()
    assert stage.fates == [("write a", "!denied"), ("read a", "read")]
