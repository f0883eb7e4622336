"""Ensembles: their life cycle, what they offer, and what an invoker does when it is called directly."""

import asyncio
from typing import Any

import pytest

from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.exceptions import ConnectionFailure, NameAbsence, ValidationFault
from ripieno.schemas import Schema
from tests.ensembles.fragile_connections import Town
from tests.support.scripted_models import ensemble, tool


def context_of(found: Ensemble) -> Context:
    return Context(
        invoker=next(iter(found.invokers.values())),
        invocation="a",
        conversation="c",
        turn=1,
        auxdata=None,
        namespace={},
        connection=found.connection,
        configuration=found.configuration,
        surroundings=None,
        deadline=None,
        progress=lambda *details: None,
    )


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


async def test_an_opener_that_fails_leaves_nothing_and_may_be_tried_again() -> None:
    fails = True

    async def opening() -> None:
        if fails:
            raise OSError(111, "Connection refused")

    town = Town(opening=opening)
    connected = Ensemble("mine", opener=town)
    with pytest.raises(
        ConnectionFailure, match=r"Ensemble 'mine': it could not connect: .*Connection refused"
    ) as caught:
        await connected.connect()
    assert isinstance(caught.value.__cause__, OSError)
    assert (connected.state, town.opened) == ("failed", 0)
    await connected.disconnect()
    fails = False
    await connected.connect()
    assert connected.connection == "connection 1"
    await connected.disconnect()


async def test_a_failure_that_is_ours_already_stays_as_it_is() -> None:
    failure = ConnectionFailure("mine", "no such command.", hint="Install it.")

    async def opening() -> None:
        raise failure

    with pytest.raises(ConnectionFailure) as caught:
        await Ensemble("mine", opener=Town(opening=opening)).connect()
    assert caught.value is failure


async def test_a_cancelled_connect_leaves_nothing() -> None:
    town = Town(opening=asyncio.Event().wait)
    connected = Ensemble("mine", opener=town)
    task = asyncio.create_task(connected.connect())
    await town.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await connected.disconnect()
    assert (connected.state, town.opened, town.closed) == ("disconnected", 0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


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


async def test_it_connects_after_a_cancelled_attempt_and_once_for_two_at_a_time() -> None:
    gate = asyncio.Event()
    town = Town(opening=gate.wait)
    connected = Ensemble("mine", opener=town)
    task = asyncio.create_task(connected.connect())
    await town.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    both = asyncio.gather(connected.connect(), connected.connect())
    await asyncio.sleep(0)
    gate.set()
    await both
    assert (connected.state, town.opened) == ("connected", 1)
    await connected.disconnect()
