"""Timeouts of one answer, in virtual time: only waiting for the endpoint counts, and each limit has its own error."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import pytest

from ripieno.descriptors.timeouts import Timeouts
from ripieno.models.transport.timeouts import Lateness, Watch
from tests.support.virtual_time import VirtualLoop


async def pieces(waits: Iterable[float]) -> AsyncIterator[bytes]:
    for seconds in waits:
        await asyncio.sleep(seconds)
        yield b"x"


def read(waits: Iterable[float], *, listener: float = 0, **timeouts: float) -> int:
    """Reads an answer whose head and pieces come after so many seconds each; gives how many pieces there were."""

    async def main() -> int:
        head, *rest = waits
        watch = Watch(Timeouts(**timeouts))
        await watch.begin(asyncio.sleep(head))
        read = 0
        async for _ in watch.pieces(pieces(rest)):
            await asyncio.sleep(listener)
            read += 1
        watch.close()
        return read

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def test_a_slow_beginning_is_no_stall() -> None:
    assert read([9, 20, 1.9, 1.9], first_byte=30, between=2) == 3


def test_a_slow_listener_is_no_stall() -> None:
    assert read([1, 1, 1, 1], listener=50, first_byte=3, between=2) == 3


@pytest.mark.parametrize(
    ("waits", "key", "seconds"),
    [
        ([31], "first_byte", 30),
        ([10, 21], "first_byte", 30),
        ([1, 1, 2.1], "between", 2),
        ([1, *itertools.repeat(1.0, 200)], "whole", 100),
        ([1, *itertools.repeat(1.0, 98), 1.5], "whole", 100),
    ],
)
def test_each_limit_has_its_error(waits: list[float], key: str, seconds: float) -> None:
    with pytest.raises(Lateness) as caught:
        read(waits, first_byte=30, between=2, whole=100)
    assert (caught.value.key, caught.value.seconds) == (key, seconds)
