"""Locks between conversations of one process: on resources of calls, and on ``max_parallel`` places."""

import asyncio
import pathlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import ExecutionProgress
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.execution.claims import Claims, Resource
from ripieno.execution.scheduling.locks import Locks
from tests.counts import count
from tests.execution.scheduling.test_turn import Stage, fate
from tests.support.scripted_models import Blocking, Listening, ensemble, invoke, settle_down, tool

WRITING: dict[str, Any] = {"effect": "write", "reads": ("file:{path}",), "writes": ("file:{path}",)}


class Talk(Stage):
    """One turn of a conversation of its own."""

    def __init__(self, playing: Ensemble, *calls: tuple[str, str], limits: Limits | None = None) -> None:
        super().__init__(tools=playing, limits=limits)
        for number, (name, path) in enumerate(calls):
            self.turn.seal(invoke(name, f"{name}{number}", path=path))

    @property
    def results(self) -> list[str | None]:
        return [result for _, result in self.fates]

    @property
    def told(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, ExecutionProgress)]


def act(invocable: Any, name: str = "act", **policy: Any) -> Definition:
    return tool(name, invocable, **{**WRITING, **policy})


async def test_calls_of_different_conversations_wait_for_each_other() -> None:
    blocking = Blocking()
    playing = ensemble(act(blocking), tool("look", reads=("file:{path}",)))
    first = Talk(playing, ("act", "d"))
    tasks = [asyncio.create_task(first.turn.finish())]
    await settle_down()
    second, third = Talk(playing, ("look", "d/x")), Talk(playing, ("look", "e"))
    assert (second.told, third.told) == (["waiting for mine.act of another conversation"], [])
    tasks += [asyncio.create_task(one.turn.finish()) for one in (second, third)]
    await settle_down()
    assert (first.results, second.results, third.results) == ([None], [None], ["look"])
    blocking.go.set()
    await asyncio.gather(*tasks)
    assert (first.results, second.results) == (["late"], ["look"])
    assert Locks.here().idle


async def test_what_is_not_declared_waits_for_nobody_elsewhere() -> None:
    blocking = Blocking()
    playing = ensemble(tool("act", blocking, effect="write"), tool("look", blocking), act(blocking, "write"))
    talks = [Talk(playing, (name, "a")) for name in ("act", "act", "look", "write")]
    tasks = [asyncio.create_task(one.turn.finish()) for one in talks]
    await settle_down()
    assert blocking.running == 4
    blocking.go.set()
    await asyncio.gather(*tasks)


async def test_another_workspace_is_another_world(tmp_path: pathlib.Path) -> None:
    blocking = Blocking()
    here, there = (ensemble(act(blocking), surroundings=Listening(tmp_path / name).surroundings) for name in ("a", "b"))
    tasks = [asyncio.create_task(Talk(one, ("act", "x")).turn.finish()) for one in (here, there, here)]
    await settle_down()
    assert blocking.running == 2
    blocking.go.set()
    await asyncio.gather(*tasks)


async def test_waiting_is_no_time_of_the_call_and_bounded_by_that_of_the_run() -> None:
    blocking = Blocking()
    playing = ensemble(act(blocking), act(None, "quick", timeout=0.01))
    first, patient = Talk(playing, ("act", "a")), Talk(playing, ("quick", "a"))
    tasks = [asyncio.create_task(one.turn.finish()) for one in (first, patient)]
    await settle_down()
    hasty = Talk(playing, ("quick", "a"), limits=Limits(wall=0.05))
    await hasty.turn.finish()
    assert hasty.results == ["!limit"]
    result = hasty.turn.entries[0].result
    assert "mine.act of another conversation did not end in time." in (result.text if result else "")
    blocking.go.set()
    await asyncio.gather(*tasks)
    assert (patient.results, Locks.here().idle) == (["quick"], True)


async def test_a_call_that_waits_can_be_cancelled_and_leaves_the_queue() -> None:
    blocking = Blocking()
    playing = ensemble(act(blocking), act(None, "next"))
    first, second, third = Talk(playing, ("act", "a")), Talk(playing, ("next", "a")), Talk(playing, ("next", "a"))
    tasks = [asyncio.create_task(one.turn.finish()) for one in (first, second, third)]
    await settle_down()
    tasks[1].cancel()
    await asyncio.wait((tasks[1],))
    assert (second.results, third.results) == (["!cancelled"], [None])
    blocking.go.set()
    await asyncio.gather(tasks[0], tasks[2])
    assert (third.results, Locks.here().idle) == (["next"], True)


@pytest.mark.parametrize("how", ["cut", "drop"])
async def test_what_waits_when_the_answer_is_lost_never_begins(how: str) -> None:
    blocking = Blocking()
    playing = ensemble(act(blocking), tool("look", reads=("file:{path}",)))
    first = Talk(playing, ("act", "a"))
    task = asyncio.create_task(first.turn.finish())
    await settle_down()
    second = Talk(playing, ("look", "a"))
    assert second.told != []
    await (second.turn.cut("length") if how == "cut" else second.turn.drop())
    blocking.go.set()
    await task
    assert second.results == (["!cancelled"] if how == "cut" else [None])
    assert (second.budget.calls, Locks.here().idle) == (0, True)


# Places.


class Counting:
    """A tool that counts its running calls, and the most at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def __call__(self, context: Any, arguments: dict[str, Any]) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await settle_down(3)
        self.running -= 1
        return "counted"


@pytest.mark.parametrize(("own", "whole", "most"), [(3, None, 3), (None, 4, 4), (5, 2, 2), (1, 9, 1)])
async def test_no_more_run_than_have_a_place(own: int | None, whole: int | None, most: int) -> None:
    counting = Counting()
    playing = ensemble(tool("look", counting, max_parallel=own), max_parallel=whole)
    talks = [Talk(playing, *[("look", str(number)) for number in range(5)]) for _ in range(8)]
    await asyncio.gather(*(one.turn.finish() for one in talks))
    assert counting.most == most
    assert all(one.results == ["counted"] * 5 for one in talks)
    assert Locks.here().idle


async def test_a_place_of_the_same_turn_is_waited_for_as_well() -> None:
    blocking = Blocking()
    talk = Talk(ensemble(tool("look", blocking, max_parallel=1)), ("look", "a"), ("look", "b"))
    task = asyncio.create_task(talk.turn.finish())
    await settle_down()
    assert (blocking.running, talk.told) == (1, ["waiting for mine.look"])
    blocking.go.set()
    await task
    assert talk.results == ["late", "late"]


async def test_a_tool_that_conducts_does_not_wait_for_itself() -> None:
    playing: Ensemble

    async def conduct(context: Context, arguments: dict[str, Any]) -> str:
        inner = Talk(playing, ("inner", "a"))
        await inner.turn.finish()
        return f"inner {inner.results[0]}"

    playing = ensemble(act(conduct, "outer"), act(None, "inner"), max_parallel=1)
    outer, other = Talk(playing, ("outer", "a")), Talk(playing, ("inner", "a"))
    await asyncio.wait_for(asyncio.gather(outer.turn.finish(), other.turn.finish()), 5)
    assert (outer.results, other.results) == (["inner inner"], ["inner"])
    assert Locks.here().idle


# Laws.


@settings(max_examples=count(4_000, 100), deadline=None)
@given(
    st.lists(
        st.tuples(st.frozensets(st.sampled_from("abc"), max_size=2), st.frozensets(st.sampled_from("abc"), max_size=2)),
        min_size=1,
        max_size=10,
    ),
    st.integers(1, 3),
    st.data(),
)
def test_law_what_conflicts_is_never_held_at_once_and_all_are_served(
    plans: list[tuple[frozenset[str], frozenset[str]]], places: int, data: st.DataObject
) -> None:
    locks, look = Locks(), ensemble(tool("look", max_parallel=places)).access_invoker("look")
    claims = [
        Claims(reads=tuple(Resource("x", one) for one in reads), writes=tuple(Resource("x", one) for one in writes))
        for reads, writes in plans
    ]
    tickets = [locks.request(look, one, object(), lambda: None) for one in claims]
    living = [one for one in tickets if one is not None]
    assert len(living) == len(plans)
    while living:
        held = [one for one in living if one.held]
        # The first of those who wait is served as soon as it can be, and nobody waits for nothing.
        assert living[0].held
        assert len(held) <= places
        assert not any(one.claims.conflicts(two.claims) for one in held for two in held if one is not two)
        for place, one in enumerate(living[:places]):
            if not one.held:
                assert any(one.claims.conflicts(earlier.claims) for earlier in living[:place])
        # Who came first is first.
        for place, one in enumerate(living):
            if one.held:
                assert not any(one.claims.conflicts(earlier.claims) for earlier in living[:place])
        gone = data.draw(st.sampled_from(living))
        living.remove(gone)
        locks.release(gone)
        locks.release(gone)
    assert locks.idle


async def test_fifty_conversations_lose_no_update(tmp_path: pathlib.Path) -> None:
    """A counter in a real file, read and written with a gap between, by threads."""
    rounds = count(200, 100)
    for name in "ab":
        (tmp_path / name).write_text("0")

    def add(context: Context, arguments: dict[str, Any]) -> str:
        paths = [tmp_path / name for name in arguments["path"].split("+")]
        seen = [int(path.read_text()) for path in paths]
        for path, value in zip(paths, seen, strict=True):
            path.write_text(str(value + 1))
        return "added"

    one = {"effect": "write", "reads": ("file:{path}",), "writes": ("file:{path}",)}
    both = {"effect": "write", "writes": ("file:b", "file:./a")}
    playing = ensemble(
        tool("one", add, **one), tool("both", add, **both), surroundings=Listening(tmp_path).surroundings
    )

    async def talk(number: int) -> list[ResultCanister | None]:
        results: list[ResultCanister | None] = []
        for turn in range(rounds):
            call = ("both", "b+a") if (number + turn) % 3 == 0 else ("one", "ab"[(number + turn) % 2])
            talking = Talk(playing, call, limits=Limits(repeats=10_000))
            await talking.turn.finish()
            results += [entry.result for entry in talking.turn.entries]
        return results

    results = [one for many in await asyncio.gather(*map(talk, range(50))) for one in many]
    assert [fate(one) for one in results] == ["added"] * (50 * rounds)
    wanted = {"a": 0, "b": 0}
    for number in range(50):
        for turn in range(rounds):
            for name in "ab" if (number + turn) % 3 == 0 else "ab"[(number + turn) % 2]:
                wanted[name] += 1
    assert {name: int((tmp_path / name).read_text()) for name in "ab"} == wanted
    assert Locks.here().idle
