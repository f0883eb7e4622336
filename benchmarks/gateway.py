"""The gateway's promises: rates, latency and memory beside others, workers, many streams, and clients that leave.

Ours, the pass-through and the LiteLLM proxy take turns in one run, since a busy machine slows all of them.
"""

import asyncio
import contextlib
import json
import resource
import statistics
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from benchmarks.gateway_requests import CALLS, TEXT
from benchmarks.gateway_sides import OURS, PASSTHROUGH, PROXY, Running, Side, ask, backend, litellm, running, state
from benchmarks.measurement import Row

#: Many and short ones: whatever else the machine does comes and goes within seconds.
RUNS = 16
SECONDS = 0.6
#: Of the LiteLLM proxy, which answers some ten streams a second: fewer and longer ones.
PROXY_RUNS, PROXY_SECONDS = 3, 4.0
STREAMS, LEAVING = 2000, 1000
#: Milliseconds between the pieces of these streams; and of those whose first word is waited for.
PACE, WORD_PACE = 200, 1
#: Of those that leave, at once: what is measured is how soon they are noticed, not how long a busy gateway's queue is.
CONNECTIONS = 8
#: Seconds after the last disconnect at which no request may be open at the backend.
CANCELLED = 1.0
#: By whether it is streamed: ours against the pass-through, and against the LiteLLM proxy, at least so many times.
_TIMES = {False: (0.5, 12), True: (0.5, 20)}
_KINDS = {False: "whole", True: "streamed"}

Figures = Mapping[str, Any]


async def gateway_rates(side: Side = OURS) -> list[Row]:
    """Requests a second, what they cost, added latency and memory: ours, the pass-through, LiteLLM if there is one."""
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(_backend())
        ours = await stack.enter_async_context(running(side, address))
        floor = await stack.enter_async_context(running(PASSTHROUGH, address))
        rows: list[Row] = []
        for stream in (False, True):
            rows += await _rates(ours, floor, stream=stream)
            rows += await _latency(ours, floor, address, stream=stream)
        mine, bare = ours.memory(), floor.memory()
        detail = f"pass-through {bare:.0f} MB"
        rows.append(Row(what="gateway: memory after load", measured=mine, budget=60.0, unit="MB", detail=detail))
        if litellm() is not None:
            proxy = await stack.enter_async_context(running(PROXY, address))
            rows += [await _proxy_rate(ours, proxy, stream=stream) for stream in (False, True)]
            rows.append(Row(what=f"  {proxy.name}: memory", measured=proxy.memory(), budget=None, unit="MB"))
    return rows


async def gateway_workers(side: Side = OURS) -> list[Row]:
    """CPU a request of two workers against one, all processes counted."""
    rows: list[Row] = []
    async with _backend() as address, running(side, address) as one, running(side, address, workers=2) as two:
        for stream in (False, True):
            pairs = await _pairs(one, two, stream=stream)
            ratio = statistics.median(second["cpu"] / first["cpu"] for first, second in pairs)
            alone, both = (_median(column, "cpu") * 1e3 for column in zip(*pairs, strict=True))
            what = f"gateway, {_KINDS[stream]}: CPU of two workers"
            detail = f"{both:.2f} ms against {alone:.2f} ms a request"
            rows.append(Row(what=what, measured=ratio, budget=1.1, unit="times one", detail=detail))
    return rows


async def gateway_streams(side: Side = OURS) -> list[Row]:
    """Many streams at once, of ten seconds each."""
    async with _backend() as address, running(side, address) as ours:
        await state(address, reset=True)
        before = most = ours.memory()
        asking = asyncio.create_task(ask("streams", ours, count=STREAMS, pace=PACE))
        while not asking.done():
            await asyncio.wait([asking], timeout=0.5)
            most = max(most, ours.memory())
        figures = await asking
        peak = (await state(address))["peak"]
    what = f"gateway: lost of {STREAMS} streams at once"
    detail = f"{peak} open at most, {figures['seconds']:.0f} s {_said(figures)}"
    each = (most - before) / STREAMS * 1e3
    return [
        Row(what=what, measured=float(figures["lost_or_refused"]), budget=0.0, unit="", detail=detail),
        Row(what="  memory each", measured=each, budget=None, unit="KB", detail=f"{most:.0f} MB at most"),
    ]


async def gateway_disconnects(side: Side = OURS) -> list[Row]:
    """A thousand clients that leave at random phases while the backend waits for good: what is left over, how long."""
    async with _backend() as address, running(side, address) as ours:
        await state(address, reset=True)
        figures = await ask("leave", ours, count=LEAVING, connections=CONNECTIONS)
        await asyncio.sleep(CANCELLED)
        after = await state(address)
        memory = ours.memory()
    left: Mapping[str, float] = figures["left"]
    delays = {number: (at - left[number]) * 1e3 for number, at in after["left"].items() if number in left}
    phases: dict[str, list[float]] = {}
    for number, delay in delays.items():
        phases.setdefault(figures["phases"][number], []).append(delay)
    slowest = ", ".join(f"{phase} {max(some):.0f}" for phase, some in sorted(phases.items()))
    what = f"gateway: orphans of {LEAVING} disconnects"
    detail = f"{len(left)} left, {len(delays)} cancelled, {memory:.0f} MB {_said(figures)}"
    rows = [Row(what=what, measured=float(after["open"]), budget=0.0, unit="", detail=detail)]
    if delays:
        median = statistics.median(delays.values())
        detail = f"median {median:.1f} ms; slowest by phase: {slowest}"
        what = "  slowest cancelling of the backend"
        rows.append(Row(what=what, measured=max(delays.values()), budget=250.0, unit="ms", detail=detail))
    return rows


async def _rates(ours: Running, floor: Running, *, stream: bool) -> list[Row]:
    """Against the pass-through, pair by pair."""
    pairs = await _pairs(ours, floor, stream=stream)
    mine, others = zip(*pairs, strict=True)
    kind = f"gateway, {_KINDS[stream]}"
    percentage = statistics.median(other["rate"] / one["rate"] for one, other in pairs) * 100
    costs = statistics.median(one["cpu"] / other["cpu"] for one, other in pairs)
    failed = sum(one["errors"] + one["lost"] for one in mine)
    detail = f"{_median(mine, 'rate'):.0f}/s against {_median(others, 'rate'):.0f}/s; p99 {_ninety_nine(mine)}"
    spent = f"{_median(mine, 'cpu') * 1e3:.2f} ms against {_median(others, 'cpu') * 1e3:.2f} ms a request"
    budget = 100 / _TIMES[stream][0]
    return [
        Row(what=f"{kind}: pass-through", measured=percentage, budget=budget, unit="% of ours", detail=detail),
        Row(what="  CPU", measured=costs, budget=None, unit="times", detail=spent),
        Row(what="  errors and lost", measured=float(failed), budget=0.0, unit="", detail=_said(*mine)),
    ]


async def _latency(ours: Running, floor: Running, address: str, *, stream: bool) -> list[Row]:
    """What one client alone waits longer than at the backend itself: for the answer, or the first word of a stream."""
    bare = Running(name="backend", wire="chat", url=address, process=0)
    until = "word" if stream else "total"
    # A model says one word after the other: what comes at once is measured by the rates.
    given = {"stream": stream, "connections": 1, "seconds": SECONDS, "pace": WORD_PACE if stream else 0}
    rounds = [[await ask("load", side, **given) for side in (ours, floor, bare)] for _ in range(RUNS // 4)]
    mine, others, least = (
        statistics.median(one[until]["p50"] * 1e3 for one in column) for column in zip(*rounds, strict=True)
    )
    what = f"  added p50, {'first word' if stream else 'one connection'}"
    detail = f"{mine:.2f} ms; pass-through {others:.2f} ms; backend {least:.2f} ms"
    return [
        Row(what=what, measured=mine - least, budget=None if stream else 2.0, unit="ms", detail=detail),
        Row(what="  beside the pass-through", measured=mine - others, budget=1.0 if stream else None, unit="ms"),
    ]


async def _proxy_rate(ours: Running, proxy: Running, *, stream: bool) -> Row:
    """Of the same bridge: Responses in, chat completions out."""
    pairs = [
        (await _load(ours, stream=stream), await _load(proxy, stream=stream, seconds=PROXY_SECONDS))
        for _ in range(PROXY_RUNS)
    ]
    mine, others = zip(*pairs, strict=True)
    percentage = statistics.median(other["rate"] / one["rate"] for one, other in pairs) * 100
    spent = _median(others, "cpu") * 1e3
    detail = f"{_median(mine, 'rate'):.0f}/s against {_median(others, 'rate'):.1f}/s, {spent:.0f} ms of CPU each"
    what = f"gateway, {_KINDS[stream]}: {proxy.name}"
    budget = 100 / _TIMES[stream][1]
    return Row(what=what, measured=percentage, budget=budget, unit="% of ours", detail=f"{detail} {_said(*others)}")


async def _pairs(one: Running, other: Running, *, stream: bool) -> Sequence[tuple[Figures, Figures]]:
    """Runs of both in turns after a warm-up, each first in half of them."""
    for side in (one, other):
        await _load(side, stream=stream)
    pairs: list[tuple[Figures, Figures]] = []
    for _ in range(RUNS // 2):
        first = await _load(one, stream=stream)
        pairs.append((first, await _load(other, stream=stream)))
        second = await _load(other, stream=stream)
        pairs.append((await _load(one, stream=stream), second))
    return pairs


async def _load(side: Running, *, stream: bool, seconds: float = SECONDS) -> Figures:
    """A run of the load generator, with CPU a request. Errors: ``RuntimeError`` when no answer is what it should be."""
    before = side.cpu()
    figures = await ask("load", side, stream=stream, seconds=seconds)
    spent = side.cpu() - before
    if not _complete(figures["sample"], side.wire, stream=stream):
        raise RuntimeError(f"{side.name} answers something else {_said(figures)}: {figures['sample'][-1000:]}")
    return {**figures, "cpu": spent / figures["asked"]}


def _complete(sample: str, wire: str, *, stream: bool) -> bool:
    """Whether an answer has the text and both calls. The backend's own wire goes through as it is."""
    if wire != "responses":
        return all(identifier in sample for identifier, _, _ in CALLS)
    events = [line.removeprefix("data: ") for line in sample.splitlines() if line.startswith("data: {")]
    bodies: list[Any] = [json.loads(one) for one in events] if stream else [json.loads(sample or "{}")]
    if stream:
        bodies = [one["response"] for one in bodies if one["type"] == "response.completed"]
    output: list[Any] = bodies[0].get("output", []) if bodies else []
    text = "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
    calls = [(one["call_id"], one["name"], one["arguments"]) for one in output if one["type"] == "function_call"]
    return text.strip() == TEXT and calls == list(CALLS)


@contextlib.asynccontextmanager
async def _backend() -> AsyncGenerator[str, None]:
    """The backend. Who is started after it may open as many files as a thousand clients need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with backend() as address:
        yield address


def _median(figures: Sequence[Figures], name: str) -> float:
    return float(statistics.median(one[name] for one in figures))


def _ninety_nine(figures: Sequence[Figures]) -> str:
    return f"{statistics.median(one['total']['p99'] for one in figures) * 1e3:.0f} ms"


def _said(*figures: Figures) -> str:
    """The first error, if there was one."""
    errors = sum(one["errors"] for one in figures)
    first = next((one["error"] for one in figures if one["error"]), "")
    return f"({errors} errors: {first[:120]})" if errors else ""
