"""A cheap load generator: ``python -m benchmarks.load_generator MODE URL WIRE …`` prints its figures as JSON.

``load`` keeps some connections busy for some seconds; ``streams`` opens many streams at once; ``leave`` disconnects at
random phases. Times are seconds; ``left`` has those of ``time.monotonic``.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.gateway_client import MARK, WIRES, Answer, Target

#: How requests are left: a whole one while it waits, a stream before its first piece, in its midst, when all has come
#: but the end, and right after the last event.
PHASES = ("whole", "before", "middle", "end", "last")
#: Seconds in which something of a stream must come, before it is left in its midst.
SOON = 15.0


async def load(target: Target, *, connections: int, seconds: float, pace: int) -> dict[str, Any]:
    """Closed loop: each connection asks again when it was answered. The first fifth of the time warms up.

    Whoever is asked at the end is waited for, so that slow sides, which answer all at once, are not counted in lumps.
    ``pace`` is in milliseconds between the pieces of an answer; 0: it comes at once.
    """
    request = target.request(stream=target.stream, note=f"[[pace {pace}]]" if pace else "")
    began = time.perf_counter() + seconds / 5
    until = began + seconds
    answers: list[tuple[float, float]] = []
    asked, last = 0, began

    async def one() -> None:
        nonlocal asked, last
        connection = await target.connect()
        while time.perf_counter() < until:
            if connection.lost:
                connection = await target.connect()
            asked += 1
            answer = await target.ask(connection, request)
            if answer is None:
                await asyncio.sleep(0.01)  # Refusals are not to be counted at the speed of light.
            elif (now := time.perf_counter()) >= began:
                answers.append((answer.word, answer.total))
                last = now
        connection.transport.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return {
        "asked": asked,
        "rate": len(answers) / (last - began) if answers else 0.0,
        "word": _quantiles([word for word, _ in answers]),
        "total": _quantiles([total for _, total in answers]),
    }


async def streams(target: Target, *, count: int, pace: int) -> dict[str, Any]:
    """So many streams at once, whose pieces come at a pace in milliseconds."""
    request = target.request(stream=True, note=f"[[pace {pace}]]")
    began = time.perf_counter()

    async def one() -> bool:
        try:
            connection = await target.connect()
        except OSError as error:
            target.errors.append(str(error))
            target.lost += 1
            return False
        answer = await target.ask(connection, request)
        connection.transport.close()
        return answer is not None

    whole = await asyncio.gather(*(one() for _ in range(count)))
    return {"whole": sum(whole), "lost_or_refused": count - sum(whole), "seconds": time.perf_counter() - began}


async def leave(target: Target, *, count: int, connections: int, seed: int) -> dict[str, Any]:
    """So many requests, each on its own connection, left at a random phase: when, by their numbers, and in which."""
    chance = random.Random(seed)
    left: dict[str, float] = {}
    phases = {str(number): chance.choice(PHASES) for number in range(1, count + 1)}
    numbers = iter(phases)

    async def one(number: str) -> None:
        phase = phases[number]
        percentage = {"whole": 0, "before": 0, "middle": chance.randrange(10, 90), "end": 100}.get(phase)
        note = "" if percentage is None else f"[[hold {percentage} id {number}]]"
        connection = await target.connect()
        event = asyncio.Event()
        if phase not in {"whole", "before"}:
            connection.awaited = (target.terminal if phase == "last" else MARK, event)
        answered = connection.ask(target.request(stream=phase != "whole", note=note))
        answered.add_done_callback(_take)
        try:
            if connection.awaited is not None:
                await asyncio.wait_for(event.wait(), SOON)
            if phase != "last":
                await asyncio.sleep(chance.uniform(0.05, 0.15) if phase == "end" else chance.uniform(0, 0.1))
            if answered.done() and phase != "last":
                target.errors.append(f"{phase}: answered, or closed, although the backend waits")
        except TimeoutError:
            target.errors.append(f"{phase}: nothing came")
        left[number] = time.monotonic()
        if chance.random() < 0.5:
            connection.transport.abort()
        else:
            connection.transport.close()

    async def some() -> None:
        for number in numbers:
            try:
                await one(number)
            except OSError as error:
                target.errors.append(str(error))

    await asyncio.gather(*(some() for _ in range(connections)))
    return {"left": left, "phases": phases}


def _take(answered: asyncio.Future[Answer]) -> None:
    """An answer that is left fails, and nobody asks how."""
    answered.exception()


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile; nothing for less than two values."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_generator", description=__doc__)
    parser.add_argument("mode", choices=("load", "streams", "leave"))
    parser.add_argument("url")
    parser.add_argument("wire", choices=sorted(WIRES))
    parser.add_argument("--stream", action="store_true", help="load: ask for streams")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--count", type=int, default=1000, help="streams, leave: how many")
    parser.add_argument("--pace", type=int, default=0, help="load, streams: milliseconds between pieces")
    parser.add_argument("--seed", type=int, default=0, help="leave: of the phases")
    options = parser.parse_args()
    target = Target(options.url, options.wire, stream=options.stream or options.mode == "streams")
    match options.mode:
        case "load":
            running = load(target, connections=options.connections, seconds=options.seconds, pace=options.pace)
        case "streams":
            running = streams(target, count=options.count, pace=options.pace)
        case _:
            running = leave(target, count=options.count, connections=options.connections, seed=options.seed)
    figures = asyncio.run(running)
    print(json.dumps({**figures, **target.figures()}), flush=True)


if __name__ == "__main__":
    main()
