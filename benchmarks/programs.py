"""One conversation through several programs: the limit, a loop by hand, Ripieno, and peers that are installed."""

import contextlib
import functools
import statistics
from collections.abc import AsyncGenerator

import aiohttp
import httpx2

from benchmarks import floor, limit, ours, peers
from benchmarks.measurement import Row, cpu, server
from benchmarks.peers import Converse

#: The conversations: turns with four calls each, and whether the answers are streamed.
KINDS = ((20, False), (100, False), (20, True))
UNIT = "µs a turn"
OURS = "Ripieno"
RUNS = 3


async def turns_of_programs() -> list[Row]:
    """CPU of one turn over chat completions: medians of interleaved runs, each after a warm-up."""
    rows: list[Row] = []
    with server() as address:
        for turns, stream in KINDS:
            kind = f"{'streamed' if stream else 'whole'}, {turns} turns"
            spent: dict[str, list[float]] = {}
            async with _programs(f"{address}/{turns}/v1", stream=stream) as programs:
                for run in range(RUNS + 1):
                    for name, converse in programs.items():
                        seconds = await cpu(converse)
                        if run:
                            spent.setdefault(name, []).append(seconds / turns * 1e6)
            for name, figures in spent.items():
                rows.append(Row(what=f"{kind}: {name}", measured=statistics.median(figures), budget=None, unit=UNIT))
    return rows


@contextlib.asynccontextmanager
async def _programs(url: str, *, stream: bool) -> AsyncGenerator[dict[str, Converse], None]:
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))
        model = ours.model(url)
        stack.push_async_callback(model.provider.transport.close)
        found: dict[str, Converse] = {
            "the limit": functools.partial(limit.converse, session, url, "openai-chat", stream=stream),
            "a loop by hand": functools.partial(floor.LOOPS["openai-chat"][stream], client, url),
            OURS: functools.partial(ours.converse, model, ours.ensemble(), stream=stream),
        }
        async for name, converse in peers.installed(url, stack, stream=stream):
            found[name] = converse
        yield found
