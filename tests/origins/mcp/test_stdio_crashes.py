"""Many servers, of which some crash in the middle of calls: every call is accounted for, and nothing is left."""

import asyncio
import collections
import os
import pathlib
import signal
import sys

from ripieno.assembly.shortcuts import connected
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits, Rules
from ripieno.ensembles import Ensemble
from ripieno.ensembles.owner import Recovery
from ripieno.execution import Execution
from tests.counts import count
from tests.origins.mcp.test_http import until
from tests.origins.mcp.test_stdio_recovery import children
from tests.support.toml_ensembles import Alerts, make_ensemble, surround

SERVER = pathlib.Path(__file__).parents[3] / "benchmarks" / "waiting_server.py"


def ensembles(number: int, folder: pathlib.Path, *, recovery: Recovery | None = None) -> list[Ensemble]:
    """So many ensembles, each of a server of its own."""
    surroundings = surround(folder, Alerts())
    return [
        make_ensemble(
            f'[ensemble]\nname = "e{one}"\nprefix = "e{one}"\n[connection]\norigin = "mcp"\n'
            f'command = ["{sys.executable}", "-I", "-S", "{SERVER}", "0"]\n[defaults]\ntimeout = 20\n',
            surroundings,
            recovery=recovery,
        )
        for one in range(number)
    ]


async def test_a_server_that_is_killed_in_the_middle_of_calls_again_and_again(tmp_path: pathlib.Path) -> None:
    """Each call has exactly one result, whenever its server dies, and the next server serves."""
    (alone,) = ensembles(1, tmp_path, recovery=Recovery(first=0.01, longest=0.01, attempts=10**6))
    execution = Execution(limits=Limits(calls=10**6), rules=Rules(approve=("*.*",)))

    def call(name: str, number: int) -> asyncio.Task[ResultCanister]:
        invocation = InvocationCanister(identifier=f"{name}{number}", name=name)
        return asyncio.create_task(execution.execute(invocation, ensembles=[alone]))

    async with alone:
        for kill in range(count(500)):
            pid = alone.connection.peer.pid
            hanging = [call("hang", number) for number in range(5)]
            assert (await call("echo", kill)).error is None
            os.kill(pid, signal.SIGKILL)
            results = await asyncio.gather(*hanging)
            assert [one.error.category for one in results if one.error is not None] == ["outcome_unknown"] * 5
            await until(lambda: alone.state == "connected" and alone.connection.peer.pid != pid)  # noqa: B023
    assert children() == []


async def test_a_tenth_of_many_servers_crashes(tmp_path: pathlib.Path) -> None:
    servers, calls = max(count(100), 10), count(10_000)
    descriptors = len(os.listdir("/dev/fd"))
    execution = Execution(limits=Limits(calls=10**6), rules=Rules(approve=("*.*",)))
    async with connected(*ensembles(servers, tmp_path)) as playing:

        async def run(number: int) -> ResultCanister:
            one = playing[number % servers]
            crashes = number % servers % 10 == 0
            name = one.access_invoker("crash" if crashes else "echo").exposed
            return await execution.execute(InvocationCanister(identifier=f"c{number}", name=name), ensembles=[one])

        results: list[ResultCanister] = []
        for start in range(0, calls, 100):
            results += await asyncio.gather(*(run(number) for number in range(start, min(start + 100, calls))))
        assert [one.invocation_id for one in results] == [f"c{number}" for number in range(calls)]
        fates = collections.Counter(
            (number % servers % 10 == 0, None if one.error is None else one.error.code)
            for number, one in enumerate(results)
        )
        assert set(fates) == {(False, None), (True, "server_lost")}
    assert children() == []
    assert len(os.listdir("/dev/fd")) == descriptors
