"""The rows, one function each, and the list of them, ``ROWS``."""

import asyncio
import functools
import pathlib
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import httpx2

from benchmarks import (
    browser,
    chats,
    connections,
    durable,
    file_search,
    floor,
    gateway,
    gateway_lag,
    histories,
    journals,
    limit,
    long_conversations,
    open_pipes,
    ours,
    programs,
    sandbox,
)
from benchmarks.measurement import Row, cpu, pairs, per_call, server, wall
from benchmarks.tools import SCHEMA
from ripieno.canisters import Controls
from ripieno.canisters.events import ResultReady, TextDelta
from ripieno.canisters.serialization import serialize
from ripieno.conducting import conduct
from ripieno.descriptors import Policy
from ripieno.descriptors.loading import Layer, load_ensembles
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.jsonvalues import canonical, freeze, is_table, parse
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Identifiers
from ripieno.models.transport.sse import Splitter
from ripieno.schemas import Schema
from ripieno.testing import call, turn

RUNS = 5


async def turns_whole() -> list[Row]:
    """CPU per turn, whole answers, mean of a 100-turn conversation with four calls a turn."""
    return await _against_floor(turns=100, stream=False)


async def turns_streamed() -> list[Row]:
    """The same, streamed, 20 turns."""
    return await _against_floor(turns=20, stream=True)


async def _against_floor(*, turns: int, stream: bool) -> list[Row]:
    """Each wire against a loop written by hand for it."""
    playing = ours.ensemble()
    kind = f"{'streamed' if stream else 'whole'}, {turns} turns"
    rows: list[Row] = []
    with server() as address:
        url = f"{address}/{turns}/v1"
        async with httpx2.AsyncClient(timeout=60) as client:
            for wire in ours.WIRES:
                model = ours.model(url, wire)
                mine = functools.partial(ours.converse, model, playing, stream=stream)
                theirs = functools.partial(floor.LOOPS[wire.name][stream], client, url)
                spent, other, ratio = await pairs(mine, theirs, runs=RUNS)
                detail = f"{spent / turns * 1e3:.2f} ms against {other / turns * 1e3:.2f} ms a turn"
                what = f"CPU, {kind}, {wire.name}"
                rows.append(Row(what=what, measured=ratio, budget=1.0, unit="times floor", detail=detail))
                await model.provider.transport.close()
    return rows


async def turns_against_limit() -> list[Row]:
    """Each wire against the limit: whole answers of 20 and of 100 turns, and streamed ones of 20."""
    playing = ours.ensemble()
    rows: list[Row] = []
    connector = aiohttp.TCPConnector(limit=0)
    with server() as address:
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            for turns, stream in ((20, False), (100, False), (20, True)):
                url = f"{address}/{turns}/v1"
                kind = f"{'streamed' if stream else 'whole'}, {turns} turns"
                for wire in ours.WIRES:
                    model = ours.model(url, wire)
                    mine = functools.partial(ours.converse, model, playing, stream=stream)
                    theirs = functools.partial(limit.converse, session, url, wire.name, stream=stream)
                    spent, other, ratio = await pairs(mine, theirs, runs=RUNS)
                    detail = f"{spent / turns * 1e3:.2f} ms against {other / turns * 1e3:.2f} ms a turn"
                    what = f"CPU, {kind}, {wire.name}"
                    budget = 2.2 if stream else 2.0
                    rows.append(Row(what=what, measured=ratio, budget=budget, unit="times limit", detail=detail))
                    await model.provider.transport.close()
    return rows


async def growth() -> list[Row]:
    """CPU per turn of 200 turns against 5, as many of both: each has its share of collecting garbage."""
    playing = ours.ensemble()
    ratios: list[float] = []
    spent: list[tuple[float, float]] = []
    with server() as address:
        long, short = ours.model(f"{address}/200/v1"), ours.model(f"{address}/5/v1")

        async def of_five() -> None:
            for _ in range(40):
                await ours.converse(short, playing, stream=False)

        for _ in range(RUNS + 1):
            few = await cpu(of_five)
            many = await cpu(lambda: ours.converse(long, playing, stream=False))
            ratios.append(many / few)
            spent.append((few / 200 * 1e6, many / 200 * 1e6))
        history = await ours.converse(long, playing, stream=False)
        await long.provider.transport.close()
        await short.provider.transport.close()
    few, many = (statistics.median(times) for times in zip(*spent[1:], strict=True))
    size = sum(len(canonical(serialize(one))) for one in history.canisters) / 1024
    detail = f"{many:.0f} µs against {few:.0f} µs a turn; {size:.0f} KB of history at the end"
    what = "CPU per turn, 200 turns against 5"
    return [Row(what=what, measured=statistics.median(ratios[1:]), budget=1.3, unit="times", detail=detail)]


async def arguments() -> list[Row]:
    """Strict parse, validation and freezing of typical arguments."""
    schema = Schema.of(SCHEMA, closed=True)
    text = '{"path": "sources/ripieno/canisters.py", "start_line": 1, "end_line": 120}'

    def once() -> None:
        value = parse(text)
        if not is_table(value) or schema.validate(schema.complete(value)):
            raise AssertionError("They are valid.")
        freeze(value)

    return [Row(what="parse + validate + freeze", measured=per_call(once), budget=8.0, unit="µs")]


async def streamed_event() -> list[Row]:
    """One streamed event of each wire: bytes in, events out."""
    return [_streamed_event(protocol) for protocol in ours.WIRES]


def _streamed_event(protocol: Protocol) -> Row:
    splitter, decoder = Splitter("bench"), protocol.decoder("bench", Identifiers())
    encoder = protocol.encoder(Asked(model="m"))

    def feed(chunk: bytes) -> None:
        for native in splitter.feed(chunk):
            for _ in decoder.feed(native):
                pass

    # What comes once, before the first word of a text, is no part of it.
    feed(encoder.feed(TextDelta("word ")))
    once = functools.partial(feed, encoder.feed(TextDelta("word ")))
    return Row(what=f"streamed event, in to out, {protocol.name}", measured=per_call(once), budget=10.0, unit="µs")


async def importing() -> list[Row]:
    """``import ripieno``, and the start of the command line."""
    python = sys.executable
    bare, face, used = wall(
        [python, "-c", "pass"],
        [python, "-c", "import ripieno"],
        [python, "-c", "import ripieno; ripieno.assemble, ripieno.conduct"],
    )
    rows = [
        Row(what="import ripieno", measured=(face - bare) * 1e3, budget=150.0, unit="ms"),
        Row(what="  and its whole face", measured=(used - bare) * 1e3, budget=None, unit="ms"),
    ]
    command = shutil.which("ripieno", path=str(pathlib.Path(sys.executable).parent))
    peer = shutil.which("llm", path=str(pathlib.Path(sys.executable).parent))
    if command is not None and peer is not None:
        tools, other = wall([command, "tools"], [peer, "tools"])
        detail = f"{tools * 1e3:.0f} ms against {other * 1e3:.0f} ms"
        rows.append(
            Row(what="ripieno tools", measured=tools / other, budget=0.25, unit="times llm tools", detail=detail)
        )
    elif command is not None:
        (tools,) = wall([command, "tools"])
        rows.append(
            Row(what="ripieno tools", measured=tools * 1e3, budget=None, unit="ms", detail="llm is not installed")
        )
    return rows


async def descriptors() -> list[Row]:
    """A thousand descriptors, loaded and checked."""
    invoker = """
[[invokers]]
name = "read_{n}"
description = "Reads lines of a file."
effect = "read"
[invokers.arguments]
type = "object"
required = ["path"]
[invokers.arguments.properties.path]
type = "string"
description = "Path of the file."
[invokers.arguments.properties.start_line]
type = "integer"
minimum = 1
"""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "ensembles"
        folder.mkdir()
        for one in range(100):
            head = f'[ensemble]\nname = "files-{one}"\nmodule = "benchmarks.tools"\n'
            (folder / f"files-{one}.toml").write_text(head + "".join(invoker.format(n=n) for n in range(10)))
        times: list[float] = []
        for _ in range(RUNS + 1):
            before = time.perf_counter()
            loaded = load_ensembles([Layer(name="bench", folders=(pathlib.Path(name),))])
            times.append(time.perf_counter() - before)
        if loaded.problems or sum(len(one.invokers) for one in loaded.ensembles.values()) != 1000:
            raise AssertionError(loaded.problems)
    return [Row(what="1 000 descriptors", measured=statistics.median(times[1:]) * 1e3, budget=300.0, unit="ms")]


async def early() -> list[Row]:
    """Early execution: a tool of 200 ms, sealed while 300 ms of the answer are still to come."""

    async def slow(_: Context, __: dict[str, object]) -> str:
        await asyncio.sleep(0.2)
        return "done"

    tool = Definition(name="wait", invocable=slow, policy=Policy(effect="read"), schema=Schema.of({"type": "object"}))
    playing = Ensemble.of("slow", [tool])
    ratios: list[float] = []
    for _ in range(RUNS):
        model = ours.scored([turn("word " * 3, calls=[call("wait"), call("wait")], pace=0.05), turn("Done.")])
        before = time.perf_counter()
        sealed = ended = results = 0.0
        async for event in conduct(model, "Go.", ensembles=[playing]):
            now = time.perf_counter() - before
            kind = type(event).__name__
            if kind == "InvocationSealed":
                sealed = now
            elif kind == "TurnEnded" and not ended:
                ended = now
            elif isinstance(event, ResultReady):
                results = now
        ratios.append(results / max(ended, sealed + 0.2))
    return [
        Row(
            what="early execution",
            measured=statistics.median(ratios),
            budget=1.05,
            unit="times max(stream, sealing + tool)",
        )
    ]


async def concurrent() -> list[Row]:
    """A thousand conversations of ten turns at once, in this process, model and all."""
    playing = ours.ensemble()
    turns = [
        turn("", calls=[call(f"read_{n}", path=f"{t}.py", start_line=t, end_line=9) for n in range(4)])
        for t in range(1, 10)
    ]
    model = ours.scored([*turns, turn("Done.")])
    before_memory, before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    conversations = await asyncio.gather(
        *(
            conduct(model, "Go.", ensembles=[playing], execution=ours.EXECUTION, controls=Controls(stream=False))
            for _ in range(1000)
        )
    )
    spent = time.process_time() - before
    kilobytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_memory) / 1000
    lost = sum(1 for one in conversations if one.finish != "stop" or len(one.canisters) != 1 + 9 * 9 + 1)
    return [
        Row(what="1 000 conversations: lost", measured=float(lost), budget=0.0, unit=""),
        Row(what="1 000 conversations: CPU a call", measured=spent / 36_000 * 1e3, budget=0.5, unit="ms"),
        Row(what="1 000 conversations: memory each", measured=kilobytes, budget=150.0, unit="KB"),
    ]


Measure = Callable[[], Coroutine[Any, Any, list[Row]]]
ROWS: tuple[Measure, ...] = (
    turns_whole,
    turns_streamed,
    turns_against_limit,
    programs.turns_of_programs,
    growth,
    histories.four_hundred_turns,
    long_conversations.long_conversation,
    journals.journal_calls,
    arguments,
    streamed_event,
    importing,
    descriptors,
    early,
    concurrent,
    open_pipes.held_pipes,
    sandbox.safe_open,
    sandbox.confined_starts,
    file_search.hundred_thousand,
    connections.connecting,
    connections.server_call,
    gateway.gateway_rates,
    gateway.gateway_workers,
    gateway.gateway_streams,
    gateway.gateway_disconnects,
    gateway_lag.gateway_lag,
    chats.chat_events,
    chats.chat_readers,
    chats.chat_idle,
    durable.submitted_runs,
    durable.submitted_cost,
    durable.submitted_takeovers,
    browser.page_first_paint,
    browser.page_events,
    browser.page_long_conversation,
    browser.page_long_output,
)
