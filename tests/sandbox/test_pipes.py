"""Our ends of pipes: nothing is lost, nothing is read ahead, and nothing is watched without need."""

import asyncio
import contextlib
import os
from collections.abc import Generator
from typing import IO

import pytest

from ripieno.exceptions import UsageError
from ripieno.sandbox.pipes import PipeReader, PipeWriter


@pytest.fixture
def ends() -> Generator[tuple[IO[bytes], IO[bytes]], None, None]:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as here, open(writing, "wb", buffering=0) as there:
        yield here, there


async def turns(count: int = 3) -> None:
    """Lets the event loop look at its descriptors."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_read_that_is_cancelled_with_its_data_loses_nothing(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    reader = PipeReader(ends[0])
    reading = asyncio.create_task(reader.read())
    await turns()
    # The read has its data, and its task has not run since.
    asyncio.get_running_loop().call_soon(reading.cancel)
    ends[1].write(b"first")
    with pytest.raises(asyncio.CancelledError):
        await reading
    ends[1].write(b" second")
    assert await reader.read(3) + await reader.read(2) == b"first"
    assert await reader.read() == b" second"


async def test_data_for_which_no_task_waits_stays_in_the_pipe_and_wakes_nothing(
    ends: tuple[IO[bytes], IO[bytes]],
) -> None:
    reader = PipeReader(ends[0])
    ends[1].write(b"first")
    assert await reader.read() == b"first"
    ends[1].write(b"second")
    await turns()
    assert not asyncio.get_running_loop().remove_reader(ends[0].fileno())
    assert os.read(ends[0].fileno(), 10) == b"second"
    ends[1].write(b"third")
    assert await reader.read() == b"third"


async def test_one_task_reads_and_a_closed_pipe_wakes_it(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    reader, loop = PipeReader(ends[0]), asyncio.get_running_loop()
    number = ends[0].fileno()
    reading = asyncio.create_task(reader.read())
    await turns()
    with pytest.raises(UsageError, match="Two tasks"):
        await reader.read()
    reader.close()
    reader.close()
    assert (await reading, await reader.read()) == (b"", b"")
    assert not loop.remove_reader(number)


async def test_the_end_of_the_stream_is_read_as_often_as_wanted(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    reader = PipeReader(ends[0])
    ends[1].write(b"last")
    ends[1].close()
    assert [await reader.read() for _ in range(3)] == [b"last", b"", b""]


async def test_a_writer_that_waits_for_room_is_woken_by_room_and_by_the_end(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    reader, writer = PipeReader(ends[0]), PipeWriter(ends[1])
    data = bytes(range(256)) * 4096
    writing = asyncio.create_task(writer.write(data))
    found = b""
    while len(found) < len(data):
        found += await reader.read()
    await writing
    assert found == data
    writing = asyncio.create_task(writer.write(data))
    await turns()
    writer.close()
    writer.close()
    with pytest.raises(BrokenPipeError):
        await writing


async def test_what_has_room_is_written_at_once_and_nothing_is_watched(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    writer = PipeWriter(ends[1])
    with pytest.raises(StopIteration):
        writer.write(b"first").send(None)
    assert not asyncio.get_running_loop().remove_writer(ends[1].fileno())
    assert os.read(ends[0].fileno(), 10) == b"first"


async def test_a_cancelled_write_is_written_wholly_or_not_at_all(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    reader, writer, loop = PipeReader(ends[0]), PipeWriter(ends[1]), asyncio.get_running_loop()
    first, second = (letter * 2**20 for letter in (b"1", b"2"))
    writing = [asyncio.create_task(writer.write(data)) for data in (first, second)]
    await turns()
    for task in writing:
        task.cancel()
    await asyncio.wait(writing)
    assert all(task.cancelled() for task in writing)
    third = asyncio.create_task(writer.write(b"3"))
    found = b""
    while len(found) <= len(first):
        found += await reader.read()
    await third
    assert found == first + b"3"
    assert not loop.remove_writer(ends[1].fileno())


async def test_a_full_pipe_is_not_watched_for_a_write_that_was_cancelled(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    writer = PipeWriter(ends[1])
    with contextlib.suppress(BlockingIOError):
        while os.write(ends[1].fileno(), b"0"):
            pass
    writing = asyncio.create_task(writer.write(b"1"))
    await turns()
    writing.cancel()
    await asyncio.wait((writing,))
    assert not asyncio.get_running_loop().remove_writer(ends[1].fileno())


async def test_all_writes_that_wait_fail_when_the_reader_is_gone(ends: tuple[IO[bytes], IO[bytes]]) -> None:
    writer = PipeWriter(ends[1])
    writing = [asyncio.create_task(writer.write(bytes(2**20))) for _ in range(3)]
    await turns()
    writing[1].cancel()
    ends[0].close()
    await asyncio.wait(writing)
    assert [task.cancelled() or type(task.exception()) for task in writing] == [BrokenPipeError, True, BrokenPipeError]
    with pytest.raises(BrokenPipeError):
        await writer.write(b"more")
