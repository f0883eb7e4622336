"""Channels: order, a bound for a producer that waits, and an end."""

import asyncio

from ripieno.canisters.events import Event, ExecutionProgress, TextDelta
from ripieno.conducting.channel import BOUND, Channel
from tests.support.scripted_models import settle_down


def opened(number: int = 0) -> Channel:
    """A channel with a consumer, and this many events in it."""
    channel = Channel()
    channel.open = True
    for event in deltas(number):
        channel.notify(event)
    return channel


async def drain(channel: Channel) -> list[Event]:
    taken: list[Event] = []
    while (event := await channel.get()) is not None:
        taken.append(event)
    return taken


def deltas(number: int) -> list[Event]:
    return [TextDelta(str(index)) for index in range(number)]


async def test_without_a_listener_nothing_is_kept() -> None:
    channel = Channel()
    for event in deltas(BOUND * 2):
        channel.notify(event)
    assert not channel.full
    await channel.room()
    channel.open = True
    channel.close()
    assert await drain(channel) == []


async def test_nothing_comes_after_the_end() -> None:
    channel = opened()
    channel.close()
    channel.notify(TextDelta("late"))
    assert await drain(channel) == []


async def test_the_producer_waits_until_half_is_taken() -> None:
    channel = opened(BOUND)
    assert channel.full
    producer = asyncio.create_task(channel.room())
    await settle_down()
    for _ in range(BOUND // 2):
        assert not producer.done()
        await channel.get()
    await channel.get()
    await producer
    assert not channel.full


async def test_putting_never_waits_and_only_progress_is_dropped() -> None:
    channel = opened(BOUND + 10)
    channel.notify(ExecutionProgress(invocation_id="a", tool="mine.look", done=1))
    channel.close()
    assert await drain(channel) == deltas(BOUND + 10)


async def test_a_cancelled_consumer_leaves_the_channel_usable() -> None:
    channel = opened()
    consumer = asyncio.create_task(channel.get())
    await settle_down()
    consumer.cancel()
    await settle_down()
    assert consumer.cancelled()
    channel.notify(TextDelta("a"))
    assert await channel.get() == TextDelta("a")
