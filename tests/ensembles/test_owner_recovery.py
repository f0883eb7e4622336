"""What is lost is opened again: when, how often, and by which task."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.ensembles.owner import Owner, Recovery
from tests.ensembles.fragile_connections import Fragile, in_virtual_time
from tests.support.scripted_models import settle_down


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
