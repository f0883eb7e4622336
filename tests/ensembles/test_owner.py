"""Owners: what is entered is left by the same task, whatever goes wrong, and what is lost is opened again."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.ensembles import owner as owning
from ripieno.ensembles.owner import Owner, Recovery, reason
from tests.ensembles.fragile_connections import Fragile
from tests.support.scripted_models import settle_down
from tests.support.virtual_time import in_virtual_time


def owner_of(door: Any, **settings: Any) -> tuple[Owner[int], list[BaseException]]:
    lost: list[BaseException] = []
    return Owner("door", door, lost=lambda error, pause: lost.append(error), **settings), lost


async def forever() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    """Takes two cancellations before it heeds one."""
    for _ in range(2):
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
    await forever()


async def test_one_task_enters_and_leaves() -> None:
    door = Fragile()
    owner, lost = owner_of(door)
    assert await owner.open() == 1
    assert door.left == []
    await owner.close()
    assert door.tasks == set(door.left)
    assert door.left != [asyncio.current_task()]
    await owner.close()
    assert lost == []
    assert len(door.left) == 1


async def test_closing_what_was_never_opened_is_nothing() -> None:
    owner, _ = owner_of(Fragile())
    await owner.close()


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("mine"), OSError(13, "Permission denied")])
async def test_what_opening_raises_comes_out(error: Exception) -> None:
    async def fail() -> None:
        raise error

    door = Fragile(opening=fail)
    owner, lost = owner_of(door)
    with pytest.raises(type(error)) as caught:
        await owner.open()
    assert caught.value is error
    assert len(door.left) == 1
    assert lost == []
    await owner.close()


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError()])
async def test_what_no_future_takes_becomes_a_connection_error(error: BaseException) -> None:
    def opener() -> Any:
        raise error

    owner, _ = owner_of(opener)
    with pytest.raises(ConnectionError, match=f"Opening door was ended by {type(error).__name__}"):
        await owner.open()


async def test_the_deadline_of_opening_says_what_it_is() -> None:
    door = Fragile(opening=forever)
    owner, _ = owner_of(door, deadline=0.01)
    with pytest.raises(TimeoutError, match=r"it did not open within 0\.01 s"):
        await owner.open()
    assert len(door.left) == 1


async def test_an_opener_that_does_not_heed_the_deadline_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owning, "_CANCEL_DEADLINE", 0.02)
    door = Fragile(opening=stubborn)
    owner, _ = owner_of(door, deadline=0.01)
    with pytest.raises(TimeoutError, match="it did not open within"):
        await owner.open()


@pytest.mark.parametrize("opening", [forever, None], ids=["opening", "open"])
@in_virtual_time
async def test_a_cancelled_opening_is_cancelled_at_once(opening: Callable[[], Any] | None) -> None:
    door = Fragile(opening=opening)
    owner, lost = owner_of(door)
    task = asyncio.create_task(owner.open())
    await door.began.wait()
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == began
    assert len(door.left) == 1
    assert door.opened == (opening is None)
    assert lost == []


async def test_what_goes_wrong_when_closing_is_kept_quiet() -> None:
    async def fail() -> None:
        raise ValueError("no")

    owner, lost = owner_of(Fragile(closing=fail))
    await owner.open()
    await owner.close()
    assert lost == []


async def test_slow_closing_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owning, "CLOSE_DEADLINE", 0.01)
    monkeypatch.setattr(owning, "_CANCEL_DEADLINE", 0.01)
    door = Fragile(closing=forever)
    owner, _ = owner_of(door)
    await owner.open()
    await owner.close()
    assert len(door.left) == 1


@in_virtual_time
async def test_cancelling_the_closer_hurries_and_is_let_through() -> None:
    door = Fragile(closing=forever)
    owner, _ = owner_of(door)
    await owner.open()
    task = asyncio.create_task(owner.close())
    await settle_down()
    assert len(door.left) == 1
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == began


async def test_two_closers_both_wait_for_the_end() -> None:
    go = asyncio.Event()
    owner, _ = owner_of(Fragile(closing=go.wait))
    await owner.open()
    tasks = [asyncio.create_task(owner.close()) for _ in range(2)]
    await settle_down()
    assert not any(task.done() for task in tasks)
    go.set()
    await asyncio.gather(*tasks)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError: no message"),
        (ExceptionGroup("many", [ExceptionGroup("inner", [KeyError("x"), OSError()])]), "KeyError: 'x'"),
        (Mute(), "Mute: its message cannot be read"),
    ],
)
def test_a_reason_is_one_line_that_says_what_really_happened(error: BaseException, text: str) -> None:
    assert reason(error) == text


class Watched:
    """An owner of something fragile, and what it tells."""

    def __init__(self, recovery: Recovery | None = Recovery()) -> None:  # noqa: B008
        self.thing = Fragile()
        self.losses: list[tuple[str, float | None]] = []
        self.regained: list[int] = []

        def lose(error: BaseException, pause: float | None) -> None:
            self.losses.append((type(error).__name__, pause))

        self.owner = Owner("thing", self.thing, recovery=recovery, lost=lose, regained=self.regained.append)

    async def shatter(self, seconds: float) -> None:
        """Breaks it, and waits."""
        self.thing.shatter()
        await asyncio.sleep(seconds)


@in_virtual_time
async def test_it_is_opened_again_by_the_same_task_twice_in_a_row() -> None:
    watched = Watched()
    assert await watched.owner.open() == 1
    await watched.shatter(0.4)
    assert watched.regained == []
    await asyncio.sleep(0.2)
    assert watched.regained == [2]
    await watched.shatter(1.1)
    assert watched.regained == [2, 3]
    assert watched.losses == [("ConnectionResetError", 0.5), ("ConnectionResetError", 1.0)]
    await watched.owner.close()
    assert watched.thing.closed == watched.thing.opened == 3
    assert len(watched.thing.tasks) == 1


@in_virtual_time
async def test_pauses_grow_while_it_does_not_open_and_it_is_left_alone_for_a_while_then() -> None:
    watched = Watched(Recovery(first=1, longest=4, attempts=5, window=300, rest=100))
    await watched.owner.open()
    watched.thing.refusals = 6
    await watched.shatter(1000)
    pauses = [pause for _, pause in watched.losses]
    assert pauses == [1, 2, 4, 4, 4, 100, 100]
    assert watched.regained == [2]
    await watched.owner.close()


@in_virtual_time
async def test_what_held_for_long_is_forgiven() -> None:
    watched = Watched(Recovery(first=1, attempts=1, window=60, rest=1000))
    await watched.owner.open()
    for _ in range(3):
        await watched.shatter(61.5)
    assert [pause for _, pause in watched.losses] == [1, 1, 1]
    await watched.owner.close()


@in_virtual_time
async def test_closing_ends_the_pause() -> None:
    watched = Watched(Recovery(first=1000, longest=1000))
    await watched.owner.open()
    await watched.shatter(1)
    began = asyncio.get_running_loop().time()
    await watched.owner.close()
    assert asyncio.get_running_loop().time() == began
    assert watched.thing.opened == watched.thing.closed == 1


@in_virtual_time
async def test_closing_while_it_opens_again_leaves_nothing() -> None:
    watched = Watched()
    await watched.owner.open()
    entered = asyncio.Event()

    async def wait() -> None:
        entered.set()
        await asyncio.Event().wait()

    watched.thing.opening = wait
    watched.thing.shatter()
    await entered.wait()
    began = asyncio.get_running_loop().time()
    await watched.owner.close()
    assert asyncio.get_running_loop().time() == began
    assert watched.regained == []


async def test_without_recovery_it_stays_lost() -> None:
    watched = Watched(recovery=None)
    await watched.owner.open()
    watched.thing.shatter()
    await settle_down()
    assert watched.losses == [("ConnectionResetError", None)]
    await watched.owner.close()


async def test_what_never_opened_is_not_tried_again() -> None:
    watched = Watched()
    watched.thing.refusals = 1
    with pytest.raises(OSError, match="refused"):
        await watched.owner.open()
    await settle_down()
    assert (watched.thing.times, watched.losses) == (watched.thing.times[:1], [])


@given(st.integers(1, 40), st.floats(0.01, 5), st.floats(5, 60), st.integers(0, 10))
def test_pauses_never_shrink_before_the_rest(losses: int, first: float, longest: float, attempts: int) -> None:
    recovery = Recovery(first=first, longest=longest, attempts=attempts, rest=300)
    pause = recovery.pause(losses)
    if losses > attempts:
        assert pause == 300
    else:
        assert first <= pause <= longest
        assert losses == 1 or pause >= recovery.pause(losses - 1)
