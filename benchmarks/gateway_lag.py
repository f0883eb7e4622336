"""What one request at the limits costs the others of a gateway: the delay of an answer that costs nothing; memory."""

import asyncio
import contextlib
import dataclasses
import http.client
import pathlib
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator

from benchmarks import request_shapes
from benchmarks.gateway_sides import OURS, Running, backend, running
from benchmarks.measurement import Row

#: Milliseconds that any other request may wait, at most.
_LAG = 250.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One request: the status of its answer, seconds until it, the longest delay of others, megabytes at most."""

    shape: str
    wire: str
    status: int
    seconds: float
    lag: float
    memory: float


async def gateway_lag() -> list[Row]:
    """The worst delay of any shape of request over each wire, and the memory of eight at once."""
    async with backend() as address, running(OURS, address) as ours:
        costs = [await asyncio.to_thread(measure, ours, *one) for one in request_shapes.requests()]
        rows = [_row(wire, [one for one in costs if one.wire == wire]) for wire in request_shapes.WIRES]
        most, statuses = await asyncio.to_thread(_together, ours)
    detail = ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items()))
    return [*rows, Row(what="gateway: memory of 16 at once", measured=most, budget=1024.0, unit="MB", detail=detail)]


def measure(ours: Running, shape: str, wire: str, path: str, body: bytes) -> Cost:
    """The cost of one request."""
    with _peak(ours) as peak, _watch(ours) as delays:
        began = time.monotonic()
        status = _send(ours, path, body)
        seconds = time.monotonic() - began
    return Cost(
        shape=shape, wire=wire, status=status, seconds=seconds, lag=max(delays, default=0.0) * 1e3, memory=peak[0]
    )


def _row(wire: str, costs: list[Cost]) -> Row:
    worst, heaviest = max(costs, key=lambda one: one.lag), max(costs, key=lambda one: one.memory)
    detail = f"{worst.shape}; memory {heaviest.memory:.0f} MB: {heaviest.shape}; {len(costs)} shapes"
    return Row(what=f"gateway: delay, {wire}", measured=worst.lag, budget=_LAG, unit="ms", detail=detail)


def _together(ours: Running) -> tuple[float, Counter[int]]:
    """The most megabytes while 16 large requests are open, and how they are answered."""
    wire = request_shapes.WIRES["openai-chat"]
    body = request_shapes.SHAPES["as many messages as allowed"](wire)
    statuses: Counter[int] = Counter()
    with _peak(ours) as peak:
        threads = [threading.Thread(target=lambda: statuses.update([_send(ours, wire.path, body)])) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return peak[0], statuses


def _send(ours: Running, path: str, body: bytes) -> int:
    connection = _connect(ours)
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        # Refused before all of it was read.
        return 0
    finally:
        connection.close()


def _connect(ours: Running) -> http.client.HTTPConnection:
    place = urllib.parse.urlsplit(ours.url)
    return http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)


@contextlib.contextmanager
def _watch(ours: Running) -> Iterator[list[float]]:
    """Seconds that each of many small requests takes, one after the other, meanwhile."""
    delays: list[float] = []
    done = threading.Event()

    def ask() -> None:
        connection = _connect(ours)
        while not done.is_set():
            began = time.monotonic()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            delays.append(time.monotonic() - began)
            done.wait(0.005)
        connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield delays
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def _peak(ours: Running) -> Iterator[list[float]]:
    """Megabytes that are resident at most meanwhile."""
    found: list[float] = []
    process = pathlib.Path("/proc", str(ours.process))
    (process / "clear_refs").write_text("5")
    yield found
    (line,) = [one for one in (process / "status").read_text().splitlines() if one.startswith("VmHWM")]
    found.append(int(line.split()[1]) / 1000)


if __name__ == "__main__":

    async def show() -> None:
        async with backend() as address, running(OURS, address) as ours:
            for one in request_shapes.requests():
                cost = await asyncio.to_thread(measure, ours, *one)
                print(
                    f"{cost.shape:45} {cost.wire:17} {cost.status:3} {cost.seconds:7.2f} s {cost.lag:7.0f} ms "
                    f"{cost.memory:5.0f} MB {len(one[3]) / 1e6:5.1f} MB",
                    flush=True,
                )

    asyncio.run(show())
