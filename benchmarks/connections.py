"""Cost of MCP connections: many servers at once, and one call beside the bare SDK."""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from typing import Any

from benchmarks.measurement import Row, pairs
from ripieno.assembly.shortcuts import connected
from ripieno.canisters import InvocationCanister
from ripieno.canisters.controls import Limits, Rules
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.reader.problems import Source
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.ensembles.opener import opener
from ripieno.execution import Execution
from ripieno.origins.mcp import ORIGIN
from ripieno.sandbox.processes import LocalSpawner

SERVER = str(pathlib.Path(__file__).parent / "slow_mcp_server.py")
SERVERS = 50
RUNS = 3
#: Calls one after the other, and pairs of so many calls of ours and of the SDK's.
CALLS = 50
PAIRS = 40


def ensemble(number: int, seconds: float, folder: pathlib.Path) -> Ensemble:
    """An ensemble of a server whose start waits this long."""
    text = f"""
    [ensemble]
    name = "waiting{number}"
    prefix = "w{number}"
    [connection]
    origin = "mcp"
    command = ["{sys.executable}", "-I", "-S", "{SERVER}", "{seconds}"]
    """
    descriptor, problems = read_ensemble(tomllib.loads(text), Source(file=None, text=text), folder=str(folder))
    if descriptor is None:
        raise RuntimeError("\n".join(map(str, problems)))
    surroundings = Surroundings(workspace=folder, spawner=LocalSpawner(), secrets={}, alert=lambda _: None)
    return Ensemble(
        descriptor.name,
        opener=opener(descriptor, {"mcp": ORIGIN}, surroundings),
        prefix=f"w{number}",
        surroundings=surroundings,
    )


def started(count: int) -> float:
    """Seconds for so many servers to start, wait a second and end, without a connection."""
    began = time.perf_counter()
    command = (sys.executable, "-I", "-S", SERVER, "1.0")
    for process in [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)]:
        process.wait()
    return time.perf_counter() - began


async def connecting() -> list[Row]:
    """Fifty servers that wait a second before they serve, against one, without what the machine needs to start them."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        async def timed(count: int) -> float:
            began = time.perf_counter()
            async with connected(*(ensemble(number, 1.0, folder) for number in range(count))):
                return time.perf_counter() - began

        await timed(1)  # Imports the SDK.
        runs = [(await timed(1), await timed(SERVERS), started(SERVERS) - started(1)) for _ in range(RUNS)]
    one, many, starts = (statistics.median(times) for times in zip(*runs, strict=True))
    detail = f"{many:.2f} s, of which {starts:.2f} s only start them, against {one:.2f} s"
    what = f"connecting {SERVERS} waiting servers against one"
    return [Row(what=what, measured=(many - starts) / one, budget=1.3, unit="times", detail=detail)]


async def server_call() -> list[Row]:
    """A call of a server's tool through execution, against the SDK's own client over its own streams."""
    from mcp import Client, StdioServerParameters

    with tempfile.TemporaryDirectory() as name:
        ours = ensemble(0, 0.0, pathlib.Path(name))
        execution = Execution(limits=Limits(calls=10**6), rules=Rules(approve=("*.*",)))
        invocation = InvocationCanister(identifier="a", name="w0__echo")
        bare: Any = StdioServerParameters(command=sys.executable, args=["-I", "-S", SERVER, "0"], env=dict(os.environ))
        async with ours, Client(bare, cache=None, mode="legacy") as client:
            await client.list_tools()

            async def mine() -> None:
                for _ in range(CALLS):
                    result = await execution.execute(invocation, ensembles=[ours])
                    if result.error is not None:
                        raise RuntimeError(result.text)

            async def theirs() -> None:
                for _ in range(CALLS):
                    await client.call_tool("echo", {})

            one, other, ratio = await pairs(mine, theirs, runs=PAIRS)
    detail = f"{one / CALLS * 1e6:.0f} µs of CPU against {other / CALLS * 1e6:.0f} µs"
    what = "a call of a server's tool"
    return [Row(what=what, measured=ratio, budget=1.3, unit="times bare SDK", detail=detail)]
