"""Whoever watches an ensemble is told of every change of its tools or its state, and can hinder nobody."""

import asyncio
from collections.abc import Callable

import pytest

from ripieno.ensembles import Ensemble
from ripieno.exceptions import ConnectionFailure
from tests.ensembles.fragile_connections import Town, in_virtual_time
from tests.support.scripted_models import tool


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


async def test_failures_are_told() -> None:
    town = Town()
    town.refusals = 1
    mine = Ensemble("mine", opener=town)
    kept, _ = seen(mine)
    with pytest.raises(ConnectionFailure):
        await mine.connect()
    await mine.disconnect()
    assert kept == [("connecting", 0), ("failed", 0)]


async def test_a_cancelled_attempt_is_told() -> None:
    mine = Ensemble("mine", opener=Town(opening=asyncio.Event().wait))
    kept, _ = seen(mine)
    begun = asyncio.Event()
    mine.watch(begun.set)
    connecting = asyncio.create_task(mine.connect())
    await begun.wait()
    connecting.cancel()
    await asyncio.wait((connecting,))
    assert kept == [("connecting", 0), ("disconnected", 0)]


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
