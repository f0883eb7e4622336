"""Servers that are processes: killed, they are started again; what they offer later, the ensemble offers."""

import asyncio
import os
import pathlib
import signal

import pytest

from ripieno.canisters import TextualContent
from ripieno.ensembles import Surroundings
from ripieno.exceptions import NetworkFault, OutcomeUnknownFault
from tests.counts import count
from tests.origins.mcp.test_http import until
from tests.support.live_processes import Living
from tests.support.toml_ensembles import Alerts, call, make_ensemble, server


def children() -> list[str]:
    """The processes that this one has started and not waited for."""
    return pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def test_a_server_that_is_killed_is_started_again(
    surroundings: Surroundings, alerts: Alerts, alive: Living
) -> None:
    ensemble = make_ensemble(server("misbehaving.py", alive=alive), surroundings)
    async with ensemble:
        for _ in range(2):
            killed = ensemble.connection.peer.pid
            waiting = asyncio.create_task(call(ensemble, "deaf"))
            await call(ensemble, "echo")
            os.kill(killed, signal.SIGKILL)
            with pytest.raises(OutcomeUnknownFault, match="was ended by signal 9"):
                await waiting
            with pytest.raises(NetworkFault, match="nothing was sent"):
                await call(ensemble, "echo")
            await until(lambda: ensemble.state == "connected" and ensemble.connection.peer.pid != killed)  # noqa: B023
            assert await call(ensemble, "echo") == [TextualContent(text="{}")]
    assert alive.all_gone(30)
    assert sum("lost its connection, and reconnects in" in alert.message for alert in alerts) == 2
    assert sum(alert.message == "Ensemble 'it' has reconnected." for alert in alerts) == 2


async def test_disconnecting_while_it_starts_again_leaves_nothing(surroundings: Surroundings, alive: Living) -> None:
    ensemble = make_ensemble(server("misbehaving.py", alive=alive), surroundings)
    await ensemble.connect()
    os.kill(ensemble.connection.peer.pid, signal.SIGKILL)
    await until(lambda: ensemble.state == "reconnecting")
    await ensemble.disconnect()
    assert ensemble.state == "disconnected"
    assert alive.all_gone(30)


async def test_cycles_leave_nothing(surroundings: Surroundings) -> None:
    """Descriptors, tasks and processes are as many after connecting, calling and disconnecting as before."""

    def held() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), len(asyncio.all_tasks())

    async def cycle() -> None:
        async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
            await call(ensemble, "echo")

    await cycle()
    before, processes = held(), children()
    for _ in range(count(1000, 100)):
        await cycle()
    assert held() == before
    assert children() == processes
