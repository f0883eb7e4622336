"""Hostile MCP servers: every encounter ends in a result or a named error within its deadline, and leaves nothing."""

import asyncio
import contextlib
import importlib
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator

import pytest
from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.ensembles import Ensemble
from ripieno.exceptions import ConnectionFailure
from ripieno.execution import Execution
from tests.counts import ATTACK
from tests.origins.hostile_mcp_servers.cases import CASES
from tests.origins.hostile_mcp_servers.expectations import BOTH, STDIO, Case
from tests.origins.hostile_mcp_servers.registry import BEHAVIOURS
from tests.origins.hostile_mcp_servers.resource_usage import Cost, watching
from tests.support.live_processes import Living, living
from tests.support.toml_ensembles import Alerts, make_ensemble, surround

ROOT = pathlib.Path(__file__).parents[3]
#: Seconds after a deadline in which an encounter must have ended: what a server may take to be ended, and some more.
GRACE = 4.0
#: Seconds in which the event loop may do nothing else: of computing, and of a clock that others hold up, too.
BUSY, BLOCKED = 5.0, 10.0
#: Bytes by which a flood may make us grow: five times the longest message, which stands in pieces, as one, and as
#: what is made of it (measured: 48 to 65 MiB, with what else grows in this process meanwhile).
GROWTH = 5 * 16 * 2**20
ALERTS = 110
#: What is the same over both is met over one of the two, by turns, unless under attack.
ENCOUNTERS = [
    pytest.param(over, case, id=f"{over}-{case.behaviour}")
    for turn, case in enumerate(CASES)
    for over in ((case.over[turn % 2],) if case.over == BOTH and not (ATTACK or case.flood) else case.over)
]
EXECUTION = Execution(rules=Rules(approve=("*",)))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """That of a server over HTTP with every behaviour."""
    command = [sys.executable, "-S", "-m", "tests.origins.hostile_mcp_servers.http_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


@pytest.fixture
def alive(tmp_path: pathlib.Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """The SDK is imported by then: that takes a second, and memory, once."""
    import ripieno.origins.mcp.session  # noqa: F401


def describe(over: str, case: Case, port: int, alive: Living) -> str:
    """The ensemble of that server."""
    transport, era = over.split("-", 1)
    if transport == "stdio":
        program = [sys.executable, "-S", "-m", "tests.origins.hostile_mcp_servers.stdio_server", case.behaviour, era]
        where = f'command = {program}\ndirectory = "{ROOT}"'
        more = f'[connection.environment]\nALIVE = "{alive.path}"'
    else:
        where, more = f'url = "http://127.0.0.1:{port}/{era}/{case.behaviour}"', ""
    return f"""
        [ensemble]
        name = "it"
        [connection]
        origin = "mcp"
        {where}
        timeout = {case.seconds if case.category == "refused" else 20}
        {more}
        [defaults]
        timeout = {case.seconds}
    """


async def call(ensemble: Ensemble, tool: str, **arguments: object) -> ResultCanister:
    invocation = InvocationCanister(identifier="call_1", name=tool, arguments=frozendict(arguments))
    return await EXECUTION.execute(invocation, ensembles=[ensemble])


@contextlib.asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None, None]:
    """What is inside must have ended by then, however long it was held up."""
    began = time.monotonic()
    async with asyncio.timeout(seconds + 20):
        yield
    assert time.monotonic() - began < seconds


def check_result(result: ResultCanister, category: str, words: str) -> None:
    found = "" if result.error is None else result.error.category
    assert found == category, result.text[:1000]
    said = result.text if result.error is None else result.error.message
    # A fault is read by people, too.
    assert result.error is None or all(one.isprintable() or one in "\n\t" for one in said), ascii(said)[:1000]
    assert re.search(words, said, re.DOTALL), said[:1000]


async def meet(case: Case, ensemble: Ensemble, alerts: Alerts) -> None:
    if case.category == "refused":
        async with within(case.seconds + GRACE):
            with pytest.raises(ConnectionFailure) as raised:
                await ensemble.connect()
        said = str(raised.value)
        assert re.search(case.words, said, re.DOTALL), said
        assert all(one.isprintable() or one == "\n" for one in said)
        assert len(said) < 4000
        return
    await ensemble.connect()
    async with within(case.seconds + GRACE):
        check_result(await call(ensemble, "it"), case.category, case.words)
    async with within(case.seconds + GRACE):
        check_result(await call(ensemble, "echo"), case.after, "")
    if case.alert:
        async with asyncio.timeout(10):
            while not any(re.search(case.alert, alert.message) for alert in alerts):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("over", "case"), ENCOUNTERS)
async def test_an_encounter(over: str, case: Case, port: int, alive: Living, capfd: pytest.CaptureFixture[str]) -> None:
    alerts = Alerts()
    cost = Cost()
    async with watching(cost):
        ensemble = make_ensemble(describe(over, case, port, alive), surround(alive.path.parent, alerts))
        try:
            await meet(case, ensemble, alerts)
        finally:
            async with within(GRACE):
                await ensemble.disconnect()
    assert cost.busy < BUSY
    assert cost.blocked < BLOCKED
    assert cost.memory < GROWTH or not case.flood
    assert len(alerts) <= ALERTS
    if over.startswith("stdio"):
        # Who leaves its session is found all the same.
        assert alive.all_gone(5)
    # Nothing that a server says goes past us to the terminal.
    assert capfd.readouterr() == ("", "")


def test_every_behaviour_is_met() -> None:
    for module in ("calls", "notifications", "listings", "handshakes", "stdio_server", "http_behaviours"):
        importlib.import_module(f"tests.origins.hostile_mcp_servers.{module}")
    assert {case.behaviour for case in CASES} == set(BEHAVIOURS)


async def test_a_server_that_never_reads_cannot_hold_us(port: int, alive: Living) -> None:
    case = Case(behaviour="never_reads_again", seconds=0.25)
    async with watching(Cost()):
        ensemble = make_ensemble(describe(STDIO, case, port, alive), surround(alive.path.parent, Alerts()))
        async with ensemble:
            check_result(await call(ensemble, "it"), "", "^it$")
            async with within(3 * case.seconds + GRACE):
                results = await asyncio.gather(*(call(ensemble, "echo", a="x" * 2**20) for _ in range(3)))
            # Telling the server of the cancellation waits for the pipe, too: the calls are given up after their grace.
            for result in results:
                check_result(result, "outcome_unknown", "timed out")
    assert alive.all_gone(5)


async def test_arguments_are_checked_in_time_whatever_the_pattern(port: int, alive: Living) -> None:
    case = Case(behaviour="patterns_that_take_for_ever")
    ensemble = make_ensemble(describe(STDIO, case, port, alive), surround(alive.path.parent, Alerts()))
    async with ensemble, within(GRACE):
        check_result(await call(ensemble, "it", a="a" * 40 + "!"), "validation", "must be text that matches")
    assert alive.all_gone(5)
