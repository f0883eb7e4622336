"""The ring of events: each reader gets each event once and in order, or is told that it needs a snapshot."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters.events import ArgumentsDelta, ExecutionProgress, ReasoningDelta, TextDelta
from ripieno.servers.chat import ring as rings
from ripieno.servers.chat.events import ChatEvent, Titled
from ripieno.servers.chat.ring import EventRing, EventsLost
from tests.counts import count
from tests.support.virtual_time import VirtualLoop, in_virtual_time

EVENTS = st.one_of(
    st.builds(TextDelta, st.text(max_size=3)),
    st.builds(ReasoningDelta, st.text(max_size=3)),
    st.builds(ArgumentsDelta, index=st.integers(0, 1), text=st.text(max_size=3)),
    st.builds(ExecutionProgress, invocation_id=st.sampled_from("ab"), tool=st.just("t"), done=st.floats(0, 1)),
    st.builds(Titled, title=st.text(max_size=3)),
)


def joined(events: list[ChatEvent]) -> list[Any]:
    """What a reader can tell: texts that follow each other are one, of progress the last counts."""
    found: list[list[Any]] = []
    for event in events:
        key = (type(event), getattr(event, "index", None), getattr(event, "invocation_id", None))
        if found and found[-1][0] == key and hasattr(event, "text"):
            found[-1][1] += event.text
        elif found and found[-1][0] == key and isinstance(event, ExecutionProgress):
            found[-1][1] = event
        else:
            found.append([key, getattr(event, "text", event)])
    return found


@given(st.lists(EVENTS, max_size=30))
def test_joined_deltas_say_the_same(events: list[ChatEvent]) -> None:
    async def publish() -> list[ChatEvent]:
        ring = EventRing()
        begin = ring.position
        for event in events:
            ring.publish(event)
        ring.flush()
        return [entry.event for entry in ring.after(begin)]

    assert joined(asyncio.run(publish())) == joined(events)


@pytest.mark.parametrize("most", [5_000, 50])
async def test_readers_that_come_and_go_get_every_event_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(rings, "MOST_EVENTS", most)
    chance = random.Random(17)
    ring = EventRing()
    numbers = [Titled(title=str(number)) for number in range(count(20_000))]
    begin = ring.position

    async def produce() -> None:
        for event in numbers:
            ring.publish(event)
            if chance.random() < 0.2:
                await asyncio.sleep(0)

    async def follow() -> tuple[list[str], int]:
        position, got, lost = begin, list[str](), 0
        while not got or got[-1] != numbers[-1].title:
            reading = ring.read(position)
            try:
                async for batch in reading:
                    for entry in batch:
                        assert isinstance(entry.event, Titled)
                        got.append(entry.event.title)
                        position = entry.position
                    # Disconnected, at any time.
                    if chance.random() < 0.3 or got[-1] == numbers[-1].title:
                        break
            except EventsLost:
                lost += 1
                # A snapshot has everything until then.
                position = ring.position
                got = [str(number) for number in range(int(position.partition("-")[2]))]
            finally:
                await reading.aclose()
            for _ in range(chance.choice((0, 0, 1, 30))):
                await asyncio.sleep(0)
        return got, lost

    followers = [asyncio.ensure_future(follow()) for _ in range(20)]
    await produce()
    results = await asyncio.gather(*followers)
    assert all(got == [one.title for one in numbers] for got, _ in results)
    assert ring.readers == 0
    assert (sum(lost for _, lost in results) > 0) == (most == 50)


async def test_only_the_newest_events_are_kept_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MOST_BYTES", 10_000)
    ring = EventRing()
    begin = ring.position
    for number in range(1000):
        ring.publish(Titled(title=str(number) * 20))
    with pytest.raises(EventsLost):
        ring.after(begin)
    last = int(ring.position.partition("-")[2])
    kept = next(
        ring.after(f"{ring.epoch}-{number}") for number in range(last) if number >= last - 200 and fits(ring, number)
    )
    assert sum(len(one.data) for one in kept) <= 10_000
    assert kept[-1].position == ring.position


def fits(ring: EventRing, number: int) -> bool:
    try:
        ring.after(f"{ring.epoch}-{number}")
    except EventsLost:
        return False
    return True


@pytest.mark.parametrize(
    "position", ["", "-", "0-0", "x", "{0}", "{0}-", "{0}-x", "{0}--1", "{0}-1", "{0}-²", "{0}-1e0"]
)
async def test_a_position_that_is_not_of_this_ring_is_refused(position: str) -> None:
    ring = EventRing()
    with pytest.raises(EventsLost):
        ring.after(position.format(ring.epoch))
    assert ring.after(f"{ring.epoch}-0") == []


@in_virtual_time
async def test_the_first_delta_after_a_pause_goes_at_once_and_the_next_ones_are_joined() -> None:
    ring, loop = EventRing(), asyncio.get_running_loop()
    begin, start, arrived = ring.position, loop.time(), list[tuple[float, str]]()

    async def read() -> None:
        async for batch in ring.read(begin):
            arrived.extend((round(loop.time() - start, 3), getattr(one.event, "text")) for one in batch)  # noqa: B009

    reading = asyncio.create_task(read())
    for text, pause in (("a", 0.003), ("b", 0.002), ("c", 1.0), ("d", 1.0)):
        ring.publish(TextDelta(text))
        await asyncio.sleep(pause)
    assert arrived == [(0.0, "a"), (rings.JOINED, "bc"), (1.005, "d")]
    reading.cancel()


@in_virtual_time
async def test_deltas_are_joined_for_longer_on_a_loop_that_is_late() -> None:
    ring, loop = EventRing(), asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    begin = ring.position
    ring.publish(TextDelta("a"))
    ring.publish(TextDelta("b"))
    # Something else takes the processor, long beyond the time for "b".
    loop.now += 10 * rings.JOINED
    for text in "-cdef":
        await asyncio.sleep(rings.JOINED_LATE / 4 if text > "c" else 0)
        ring.publish(TextDelta(text))
    await asyncio.sleep(1)
    assert [getattr(one.event, "text") for one in ring.after(begin)] == ["a", "b-", "cdef"]  # noqa: B009
