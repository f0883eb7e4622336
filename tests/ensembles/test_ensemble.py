"""Ensembles: their life cycle, lost connections, who watches, and what an invoker does when it is called directly."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.canisters import ResultCanister
from ripieno.canisters.faults import Fault
from ripieno.conducting import conduct
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.ensembles.placed import PlacedEnsemble
from ripieno.exceptions import ConnectionFailure, InputError, NameAbsence, ResourceFault, ValidationFault
from ripieno.schemas import Schema
from tests.ensembles.fragile_connections import Town
from tests.support.scripted_models import Listening, ensemble, invoke, invokes, says, scripted, tool
from tests.support.toml_ensembles import make_context
from tests.support.virtual_time import in_virtual_time


def context_of(found: Ensemble) -> Context:
    return make_context(found, next(iter(found.invokers)))


async def test_connecting_twice_and_disconnecting_twice() -> None:
    town = Town()
    connected = Ensemble("mine", opener=town)
    assert (connected.state, dict(connected.invokers)) == ("new", {})
    await connected.connect()
    await connected.connect()
    assert (connected.state, connected.connection, town.opened) == ("connected", "connection 1", 1)
    assert (list(connected.invokers), connected.revision) == (["find", "look"], 1)
    await connected.disconnect()
    await connected.disconnect()
    assert (connected.state, connected.connection, town.closed) == ("disconnected", None, 1)
    await connected.connect()
    assert (connected.connection, connected.revision) == ("connection 2", 2)
    await connected.disconnect()
    assert (town.opened, town.closed) == (2, 2)


@pytest.mark.parametrize("placed", [False, True])
async def test_a_call_after_disconnecting_is_a_fault_and_the_run_goes_on(placed: bool) -> None:
    connected = Ensemble("mine", opener=Town())
    around = Listening().surroundings
    await connected.connect()
    offered: Ensemble = PlacedEnsemble(connected, around) if placed else connected
    # Without a connection, nothing was lost.
    own = ensemble(tool("add"), name="own")
    await own.connect()
    await own.disconnect()

    async def results() -> list[Fault | None]:
        model = scripted(invokes(invoke("look"), invoke("add")), says())
        run = await conduct(model, "Go.", ensembles=[offered, own])
        assert run.finish == "stop"
        return [one.error for one in run.canisters if isinstance(one, ResultCanister)]

    await connected.disconnect()
    lost, none = await results()
    assert lost is not None
    assert (lost.category, lost.code, none) == ("resource", "disconnected", None)
    assert "the ensemble 'mine' is disconnected" in lost.message
    with pytest.raises(ResourceFault, match="disconnected"):
        await connected.access_invoker("look")(context_of(connected), {})
    await connected.connect()
    assert await results() == [None, None]
    await connected.disconnect()


async def test_an_opener_that_fails_leaves_nothing_and_may_be_tried_again() -> None:
    fails = True

    async def opening() -> None:
        if fails:
            raise OSError(111, "Connection refused")

    town = Town(opening=opening)
    connected = Ensemble("mine", opener=town)
    kept, _ = seen(connected)
    with pytest.raises(
        ConnectionFailure, match=r"Ensemble 'mine': it could not connect: .*Connection refused"
    ) as caught:
        await connected.connect()
    assert isinstance(caught.value.__cause__, OSError)
    assert (connected.state, town.opened) == ("failed", 0)
    await connected.disconnect()
    assert kept == [("connecting", 0), ("failed", 0)]
    fails = False
    await connected.connect()
    assert connected.connection == "connection 1"
    await connected.disconnect()


async def test_invokers_are_ordered_and_named() -> None:
    found = ensemble(tool("z"), tool("a.b"), tool("m"), name="crm", prefix="crm")
    assert list(found.invokers) == ["a.b", "m", "z"]
    assert [one.identity for one in found.invokers.values()] == ["crm.a.b", "crm.m", "crm.z"]
    assert found.access_invoker("m").exposed == "crm__m"
    with pytest.raises(NameAbsence, match=r"no tool named 'crm\.mm'"):
        found.access_invoker("mm")
    with pytest.raises(TypeError):
        found.invokers["new"] = found.access_invoker("m")  # type: ignore[index]


async def test_a_callers_tools_keep_their_names() -> None:
    found = Ensemble.of_request([Definition(name="get.weather", schema=Schema.of({}))])
    (invoker,) = found.invokers.values()
    assert (invoker.exposed, invoker.hosted, invoker.invocable) == ("get.weather", "caller", None)
    with pytest.raises(ConnectionFailure, match="run by the caller, not here"):
        await invoker(context_of(found), {})


async def test_calling_an_invoker_validates_and_completes() -> None:
    async def add(context: Context, arguments: dict[str, Any]) -> int:
        return int(arguments["left"]) + int(arguments["right"])

    schema = {
        "properties": {"left": {"type": "integer"}, "right": {"type": "integer", "default": 10}},
        "required": ["left"],
    }
    found = ensemble(tool("add", add, schema=schema))
    invoker = found.access_invoker("add")
    assert await invoker(context_of(found), {"left": 1}) == 11
    for arguments in ({}, {"left": "one"}):
        with pytest.raises(ValidationFault, match="left"):
            await invoker(context_of(found), arguments)


@pytest.mark.parametrize("kind", ["async", "plain", "object", "awaitable"])
async def test_every_kind_of_invocable_is_run(kind: str) -> None:
    async def asynchronous(context: Any, arguments: dict[str, Any]) -> str:
        return "said"

    def awaitable(context: Any, arguments: dict[str, Any]) -> Any:
        return asynchronous(context, arguments)

    class Object:
        async def __call__(self, context: Any, arguments: dict[str, Any]) -> str:
            return "said"

    kinds: dict[str, Any] = {
        "async": asynchronous,
        "plain": lambda context, arguments: "said",
        "object": Object(),
        "awaitable": awaitable,
    }
    found = ensemble(tool("say", kinds[kind]))
    assert await found.access_invoker("say")(context_of(found), {}) == "said"


async def test_presets_are_fixed_and_hidden() -> None:
    async def show(context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    schema = {"properties": {"path": {"type": "string"}, "root": {"type": "string"}}, "required": ["path", "root"]}
    found = ensemble(tool("show", show, schema=schema, presets={"root": "/srv"}))
    invoker = found.access_invoker("show")
    assert list(invoker.arguments_schema["properties"]) == ["path"]
    assert await invoker(context_of(found), {"path": "x"}) == {"path": "x", "root": "/srv"}


async def test_an_invoker_is_immutable_and_a_tool_gets_a_copy_of_its_presets() -> None:
    async def change(context: Any, arguments: dict[str, Any]) -> str:
        arguments["roots"].append("x")
        return " ".join(arguments["roots"])

    shared: Any = {"roots": ["/srv"]}
    found = ensemble(tool("change", change, schema={"properties": {"roots": {}}}, presets=shared))
    invoker: Any = found.access_invoker("change")
    shared["roots"].append("later")
    for name in ("name", "policy", "schema", "invocable", "colour"):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(invoker, name, None)
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            delattr(invoker, name)
    assert not hasattr(invoker, "__dict__")
    assert [await invoker(context_of(found), {}) for _ in range(2)] == ["/srv x", "/srv x"]
    configured = Definition(name="a", schema=Schema.of({}), configuration={"roots": ["/srv"]})
    assert Ensemble.of("mine", [configured]).access_invoker("a").configuration == {"roots": ("/srv",)}
    given = {"a": {"b": [1, {"c": [2]}]}}
    frozen = frozendict(a=frozendict(b=(1, frozendict(c=(2,)))))
    made = (Ensemble.of("mine", [configured], configuration=given), Ensemble.of_functions("m", [], configuration=given))
    assert [hash(one.configuration) for one in made] == [hash(frozen)] * 2
    assert made[0].configuration == frozen


def test_two_definitions_of_one_name_are_refused() -> None:
    def look() -> str:
        return ""

    twice = [Definition(name="look", schema=Schema.of({}))] * 2
    makers: list[Callable[[], Ensemble]] = [
        lambda: Ensemble.of("mine", twice),
        lambda: Ensemble.of_functions("mine", [look, look]),
        lambda: Ensemble.of_request(twice, "mine"),
    ]
    for make in makers:
        with pytest.raises(InputError, match="The ensemble 'mine' has 2 tools named 'look'"):
            make()


async def test_it_connects_after_a_cancelled_attempt_and_once_for_two_at_a_time() -> None:
    gate = asyncio.Event()
    town = Town(opening=gate.wait)
    connected = Ensemble("mine", opener=town)
    kept, _ = seen(connected)
    task = asyncio.create_task(connected.connect())
    await town.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept == [("connecting", 0), ("disconnected", 0)]
    both = asyncio.gather(connected.connect(), connected.connect())
    await asyncio.sleep(0)
    gate.set()
    await both
    assert (connected.state, town.opened) == ("connected", 1)
    await connected.disconnect()


@in_virtual_time
async def test_what_is_lost_is_connected_again_and_offers_what_it_has_then() -> None:
    town, listening = Town(), Listening()
    mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
    await mine.connect()
    looked = mine.invokers["look"]
    town.offers, town.descriptions = ("look", "keep"), {"look": "Now it looks away."}
    town.shatter()
    await asyncio.sleep(0.1)
    assert mine.state == "reconnecting"
    assert mine.invokers["look"] is looked
    await asyncio.sleep(1)
    assert (mine.state, mine.connection, mine.revision) == ("connected", "connection 2", 2)
    assert list(mine.invokers) == ["keep", "look"]
    assert mine.invokers["look"] is not looked
    await mine.disconnect()
    assert town.opened == town.closed == 2
    lost, regained = listening.messages
    # What was wrong may end with lines of somebody else's: ours come before.
    assert lost == "Ensemble 'mine' lost its connection, and reconnects in 0.5 s: it fell over"
    assert regained == "Ensemble 'mine' has reconnected. New: keep. Gone: find. Changed: look."


@in_virtual_time
async def test_connecting_while_it_waits_is_an_attempt_at_once() -> None:
    town = Town()
    mine = Ensemble("mine", opener=town)
    await mine.connect()
    town.refusals = 99
    town.shatter()
    await asyncio.sleep(20)
    assert mine.state == "reconnecting"
    town.refusals = 0
    began = asyncio.get_running_loop().time()
    await mine.connect()
    assert asyncio.get_running_loop().time() == began
    assert (mine.state, mine.connection) == ("connected", "connection 2")
    await asyncio.sleep(1000)
    await mine.disconnect()
    assert town.opened == town.closed == 2


@in_virtual_time
async def test_a_changed_list_is_the_next_snapshot() -> None:
    town, listening = Town(), Listening()
    mine = Ensemble("mine", opener=town, surroundings=listening.surroundings)
    await mine.connect()
    assert town.changed is not None
    town.changed(town.definitions(["look", "added", "find"]))
    assert (list(mine.invokers), mine.revision, mine.state) == (["added", "find", "look"], 2, "connected")
    town.changed(town.definitions(["find", "look", "added"]))
    await mine.disconnect()
    assert listening.messages == ["Ensemble 'mine' has changed its tools. New: added."]


def seen(ensemble: Ensemble) -> tuple[list[tuple[str, int]], Callable[[], None]]:
    """State and revision whenever the ensemble tells of a change; and what ends that."""
    kept: list[tuple[str, int]] = []
    return kept, ensemble.watch(lambda: kept.append((ensemble.state, ensemble.revision)))


@in_virtual_time
async def test_each_change_is_told_when_it_has_happened() -> None:
    town = Town()
    mine = Ensemble("mine", opener=town)
    kept, leave = seen(mine)
    await mine.connect()
    assert kept == [("connecting", 0), ("connected", 1)]
    await mine.connect()
    assert town.changed is not None
    town.changed(town.definitions(["look"]))
    assert kept[2:] == [("connected", 2)]
    assert list(mine.invokers) == ["look"]
    town.shatter()
    await asyncio.sleep(0.1)
    assert kept[3:] == [("reconnecting", 2)]
    await asyncio.sleep(1)
    assert kept[4:] == [("connected", 3)]
    await mine.disconnect()
    await mine.disconnect()
    assert kept[5:] == [("disconnected", 3)]
    leave()
    leave()
    await mine.connect()
    await mine.disconnect()
    assert len(kept) == 6


async def test_an_ensemble_without_a_connection_tells_of_its_state() -> None:
    mine = Ensemble.of("mine", [tool("look")])
    kept, _ = seen(mine)
    await mine.connect()
    await mine.disconnect()
    await mine.connect()
    assert kept == [("disconnected", 1), ("connected", 1)]


async def test_one_that_fails_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("I never look")

    mine = Ensemble("mine")
    mine.watch(fail)
    kept, _ = seen(mine)
    async with mine:
        assert kept == [("connected", 0)]
    (record, _) = caplog.records
    assert record.getMessage() == "A function that watches ensemble 'mine' failed."
    assert record.exc_info is not None
    assert "I never look" in str(record.exc_info[1])


async def test_a_function_may_watch_twice_and_leave_or_come_while_it_is_told() -> None:
    mine = Ensemble("mine")
    told: list[str] = []

    def first() -> None:
        told.append("first")
        leave_second()
        mine.watch(lambda: told.append("late"))

    def second() -> None:
        told.append("second")

    mine.watch(first)
    leave_second = mine.watch(second)
    mine.watch(second)
    await mine.connect()
    assert told == ["first", "second"]
    told.clear()
    await mine.disconnect()
    assert told == ["first", "second", "late"]
