"""Cost of a chat: an event to its readers, many readers of many runs, and conversations that only wait."""

import asyncio
import contextlib
import gc
import pathlib
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator

from benchmarks import ours
from benchmarks.measurement import Row
from ripieno.assembly import assemble
from ripieno.canisters import UserCanister
from ripieno.canisters.events import ArgumentsDelta
from ripieno.models import Model
from ripieno.servers.chat.application import event_stream
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.messages import ChatLimits
from ripieno.servers.chat.ring import EventRing
from ripieno.storage.journal import Journal
from ripieno.testing import turn

EVENTS, READERS, RUNS, HELD = 2_000, 50, 100, 500


@contextlib.asynccontextmanager
async def chatting(model: Model) -> AsyncGenerator[Chat, None]:
    """A chat whose runs have this model, without limits."""
    with tempfile.TemporaryDirectory() as name, Journal(pathlib.Path(name) / "journal.sqlite3") as journal:
        async with assemble({"ensembles": []}, workspace=pathlib.Path(name), recorder=journal) as assembly:
            setattr(assembly, "access_model", lambda _=None: model)  # noqa: B010  no descriptor has such a model
            limits = ChatLimits(runs=10_000, readers=10_000, held=10_000)
            async with Chat(assembly, limits=limits) as chat:
                yield chat


async def chat_events() -> list[Row]:
    """CPU of an event for each of 50 readers, from its publication to the bytes of their streams."""
    ring = EventRing()

    async def read() -> int:
        count = 0
        async with contextlib.aclosing(event_stream(ring.read(ring.position))) as frames:
            async for frame in frames:
                count += frame.count(b"\ndata: ")
                if count >= EVENTS:
                    return count
        raise AssertionError("A reader was lost.")

    readers = [asyncio.create_task(read()) for _ in range(READERS)]
    await asyncio.sleep(0)
    gc.collect()
    before = time.process_time()
    for number in range(EVENTS):
        # Different calls, so that nothing is joined.
        ring.publish(ArgumentsDelta(index=number, text="x" * 40))
        ring.flush()
        await asyncio.sleep(0)
    sent = sum(await asyncio.gather(*readers))
    spent = time.process_time() - before
    return [Row(what="chat: an event to a reader", measured=spent / sent * 1e6, budget=100.0, unit="µs")]


async def chat_readers() -> list[Row]:
    """500 readers of 100 runs: events that one of them did not get, and those that it got twice."""
    lost = doubled = total = 0
    async with chatting(ours.scored([turn("word " * 100, pace=0.02)])) as chat:
        names = [await chat.create("ada") for _ in range(RUNS)]

        async def read(name: str, position: str) -> list[str]:
            found: list[str] = []
            async with contextlib.aclosing(await chat.read("ada", name, position)) as batches:
                async for batch in batches:
                    found += [one.position for one in batch]
                    if type(batch[-1].event).__name__ == "ConductEnded":
                        return found
            return found

        places = [await chat.position("ada", name) for name in names]
        starts = [one for one in zip(names, places, strict=True) for _ in range(5)]
        readers = [(name, asyncio.create_task(read(name, place))) for name, place in starts]
        before = time.process_time()
        for name in names:
            await chat.say("ada", name, UserCanister.of("Go."))
        for name, reader in readers:
            found = await reader
            expected = int((await chat.snapshot("ada", name))["position"].partition("-")[2])
            lost += expected - len({*found})
            doubled += len(found) - len({*found})
            total += len(found)
        spent = time.process_time() - before
    detail = f"{total} events to {len(readers)} readers of {RUNS} runs, {spent / total * 1e6:.0f} µs each with the runs"
    return [
        Row(what="chat: events lost", measured=float(lost), budget=0.0, unit="", detail=detail),
        Row(what="chat: events doubled", measured=float(doubled), budget=0.0, unit=""),
    ]


async def chat_idle() -> list[Row]:
    """Memory of a conversation of one question and answer that is held and idle."""
    async with chatting(ours.scored([turn("word " * 100)])) as chat:

        async def talk() -> None:
            name = await chat.create("ada")
            position = (await chat.snapshot("ada", name))["position"]
            await chat.say("ada", name, UserCanister.of("Go."))
            async with contextlib.aclosing(await chat.read("ada", name, position)) as batches:
                async for batch in batches:
                    if type(batch[-1].event).__name__ == "ConductEnded":
                        return

        for _ in range(50):
            await talk()
        # Memory of the process would hide what fits into gaps.
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(HELD):
            await talk()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        kilobytes = (after - before) / HELD / 1000
    return [Row(what="chat: an idle conversation", measured=kilobytes, budget=40.0, unit="KB")]
