"""Calls of one turn with declared resources: what runs in parallel, in which order, and confirmations meanwhile."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.approvals import Answer, Approve, ConfirmationRequest, Deny, Edit
from ripieno.canisters.controls import Limits, Rules
from ripieno.ensembles import Definition
from tests.counts import count
from tests.execution.scheduling.test_turn import Stage
from tests.support.scripted_models import Blocking, invoke, settle_down, tool
from tests.support.virtual_time import in_virtual_time

#: A call: the tool, what it reads, what it writes.
Plan = tuple[str, str | None, str | None]

_PATHS = ["a", "b", "d", "d/x", "d/y"]
_CALLS: st.SearchStrategy[Plan] = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(_PATHS), st.none()),
    st.tuples(st.just("write"), st.none(), st.sampled_from(_PATHS)),
    st.tuples(st.just("copy"), st.sampled_from(_PATHS), st.sampled_from(_PATHS)),
    st.tuples(st.sampled_from(["look", "act", "think"]), st.none(), st.none()),
)
_PLANS = st.lists(_CALLS, min_size=1, max_size=8)


def overlap(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    return "*" in (one, other) or one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def conflict(one: Plan, other: Plan) -> bool:
    """Whether two calls conflict: an independent implementation."""
    if "act" in (one[0], other[0]):
        return True
    (_, read, write), (_, reads, writes) = (
        (name, "*" if name == "look" else source, target) for name, source, target in (one, other)
    )
    return overlap(write, writes) or overlap(write, reads) or overlap(read, writes)


def blocked(plans: list[Plan], done: set[int], place: int) -> bool:
    return any(earlier not in done and conflict(plans[earlier], plans[place]) for earlier in range(place))


def starts_early(plans: list[Plan], done: set[int], place: int) -> bool:
    """Whether a call may run before the answer's end."""
    harmless = {"read", "look", "think"}
    return (
        plans[place][0] in harmless
        and not blocked(plans, done, place)
        and "act" not in {name for name, _, _ in plans[:place]}
    )


class Gates:
    """Tools that begin when they are called, and end when a test lets them."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Event] = {}
        self.log: list[tuple[str, str]] = []

    async def __call__(self, context: Any, arguments: dict[str, Any]) -> str:
        name = context.invocation
        self.log.append(("begin", name))
        gate = self.running[name] = asyncio.Event()
        try:
            await gate.wait()
        finally:
            del self.running[name]
            self.log.append(("end", name))
        return str(name)

    def definitions(self) -> list[Definition]:
        reads, writes = ("file:{source}",), ("file:{target}",)
        return [
            tool("read", self, reads=reads),
            tool("write", self, effect="write", writes=writes),
            tool("copy", self, effect="write", reads=reads, writes=writes),
            tool("look", self),
            tool("think", self, effect="none", reads=()),
            tool("act", self, effect="write"),
        ]


def seal(stage: Stage, plans: list[Plan]) -> None:
    for place, (name, source, target) in enumerate(plans):
        given_ = {key: value for key, value in (("source", source), ("target", target)) if value is not None}
        stage.turn.seal(invoke(name, f"c{place}", **given_))


def places(gates: Gates) -> set[int]:
    return {int(name[1:]) for name in gates.running}


# Laws.


@settings(max_examples=count(2_000, 60), deadline=None)
@given(_PLANS, st.data())
@in_virtual_time
async def test_law_as_parallel_as_is_safe_and_never_more(plans: list[Plan], data: st.DataObject) -> None:
    gates = Gates()
    stage = Stage(*gates.definitions())
    seal(stage, plans)
    await settle_down()
    done: set[int] = set()
    assert places(gates) == {place for place in range(len(plans)) if starts_early(plans, done, place)}
    while places(gates) and data.draw(st.booleans()):
        ended = data.draw(st.sampled_from(sorted(places(gates))))
        gates.running[f"c{ended}"].set()
        done.add(ended)
        await settle_down()
        early = {place for place in range(len(plans)) if starts_early(plans, done, place)}
        assert places(gates) == early - done
    finishing = asyncio.ensure_future(stage.turn.finish())
    await settle_down()
    while len(done) < len(plans):
        free = {place for place in range(len(plans)) if not blocked(plans, done, place)}
        assert places(gates) == free - done
        ended = data.draw(st.sampled_from(sorted(places(gates))))
        gates.running[f"c{ended}"].set()
        done.add(ended)
        await settle_down()
    await finishing
    assert stage.fates == [(f"c{place}", f"c{place}") for place in range(len(plans))]
    assert stage.turn.open == ()
    check_order(plans, gates.log)


def check_order(plans: list[Plan], log: list[tuple[str, str]]) -> None:
    """Calls that conflict have run in their order, one after the other: as if all had."""
    when = {entry: place for place, entry in enumerate(log)}
    for later in range(len(plans)):
        for earlier in range(later):
            if conflict(plans[earlier], plans[later]) and ("begin", f"c{later}") in when:
                assert when["end", f"c{earlier}"] < when["begin", f"c{later}"]


@settings(max_examples=count(2_000, 60), deadline=None)
@given(_PLANS, st.integers(0, 12), st.data())
@in_virtual_time
async def test_law_every_call_has_one_result_whenever_it_is_cancelled(
    plans: list[Plan], steps: int, data: st.DataObject
) -> None:
    gates = Gates()
    stage = Stage(*gates.definitions())
    seal(stage, plans)
    finishing = asyncio.ensure_future(stage.turn.finish())
    await settle_down(1)
    for _ in range(steps):
        if places(gates) and data.draw(st.booleans()):
            gates.running[f"c{data.draw(st.sampled_from(sorted(places(gates))))}"].set()
        await settle_down(data.draw(st.integers(0, 4)))
    finishing.cancel()
    await asyncio.wait((finishing,))
    assert all(fate in (name, "!cancelled") for name, fate in stage.fates)
    assert not gates.running
    check_order(plans, gates.log)


@settings(max_examples=count(2_000, 60), deadline=None)
@given(_PLANS, st.integers(0, 9), st.data())
@in_virtual_time
async def test_law_the_same_calls_are_refused_whoever_is_quick(
    plans: list[Plan], calls: int, data: st.DataObject
) -> None:
    gates = Gates()
    stage = Stage(*gates.definitions(), limits=Limits(calls=calls))
    seal(stage, plans)
    finishing = asyncio.ensure_future(stage.turn.finish())
    await settle_down()
    while places(gates):
        gates.running[f"c{data.draw(st.sampled_from(sorted(places(gates))))}"].set()
        await settle_down()
    await finishing
    fates = [fate for _, fate in stage.fates]
    assert fates == [f"c{place}" if place < calls else "!limit" for place in range(len(plans))]


# Confirmations.


class Slow:
    """A confirmer whose answers a test gives."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, asyncio.Future[Answer]] = {}

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        self.asked.append(request.invocation)
        self.answers[request.invocation] = asyncio.get_running_loop().create_future()
        return await self.answers[request.invocation]


def writing(*names: str, **settings_: Any) -> tuple[Stage, Slow]:
    slow = Slow()
    tools = [tool(name, effect="write", writes=("file:{path}",)) for name in names]
    tools += [tool("read", reads=("file:{path}",)), tool("act", effect="write")]
    return Stage(*tools, rules=Rules(approve=("mine.free", "mine.act")), confirmer=slow, **settings_), slow


async def test_a_question_holds_up_only_what_conflicts_with_its_call() -> None:
    stage, slow = writing("write", "free")
    stage.seal("write a", "read a", "read b", "free c")
    assert stage.early == ["read b"]
    finishing = asyncio.create_task(stage.turn.finish())
    await settle_down()
    assert stage.started == ["read b", "free c"]
    slow.answers["write a"].set_result(Approve())
    await finishing
    assert stage.started == ["read b", "free c", "write a", "read a"]


async def test_questions_come_one_at_a_time_and_in_the_models_order() -> None:
    blocking, slow = Blocking(), Slow()
    stage = Stage(
        tool("write", effect="write", writes=("file:{path}",)),
        tool("free", blocking, effect="write", writes=("file:{path}",)),
        rules=Rules(approve=("mine.free",)),
        confirmer=slow,
    )
    stage.seal("free a", "write a", "write b", "write c")
    finishing = asyncio.create_task(stage.turn.finish())
    await settle_down()
    assert slow.asked == []
    blocking.go.set()
    for name in ("write a", "write b", "write c"):
        await settle_down()
        assert slow.asked[-1] == name
        slow.answers[name].set_result(Deny("no") if name == "write b" else Approve())
    await finishing
    assert slow.asked == ["write a", "write b", "write c"]
    assert [fate for _, fate in stage.fates] == ["late", "write", "!denied", "write"]


async def test_a_question_about_a_reader_holds_up_no_other_reader() -> None:
    slow = Slow()
    stage = Stage(tool("look"), tool("ask", confirm=True), confirmer=slow)
    stage.seal("look a", "ask b", "look c")
    assert stage.early == ["look a"]
    finishing = asyncio.create_task(stage.turn.finish())
    await settle_down()
    assert stage.started == ["look a", "look c"]
    slow.answers["ask b"].set_result(Approve())
    await finishing
    assert stage.fates == [("look a", "look"), ("ask b", "ask"), ("look c", "look")]


async def test_an_edited_call_waits_for_what_it_conflicts_with_now() -> None:
    blocking, slow = Blocking(), Slow()
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    stage = Stage(
        tool("write", schema=schema, effect="write", writes=("file:{path}",)),
        tool("free", blocking, schema=schema, effect="write", writes=("file:{path}",)),
        rules=Rules(approve=("mine.free",)),
        confirmer=slow,
    )
    stage.turn.seal(invoke("write", "w", path="a"))
    stage.turn.seal(invoke("free", "f", path="b"))
    finishing = asyncio.create_task(stage.turn.finish())
    await settle_down()
    assert stage.started == ["f"]
    slow.answers["w"].set_result(Edit({"path": "b"}))
    await settle_down()
    assert stage.started == ["f"]
    blocking.go.set()
    await finishing
    assert stage.started == ["f", "w"]


async def test_a_place_is_kept_for_a_call_that_somebody_is_asked_about() -> None:
    stage, slow = writing("write", "free", limits=Limits(calls=1))
    stage.turn.seal(invoke("write", "w", path="a"))
    stage.turn.seal(invoke("free", "f", path="b"))
    finishing = asyncio.create_task(stage.turn.finish())
    await settle_down()
    assert stage.started == []
    slow.answers["w"].set_result(Approve())
    await finishing
    assert stage.fates == [("w", "write"), ("f", "!limit")]
