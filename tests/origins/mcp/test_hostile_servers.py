"""Hostile MCP servers: every encounter ends in a result or a named error within its deadline, and leaves nothing."""

import asyncio
import importlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.ensembles import Ensemble
from ripieno.exceptions import ConnectionFailure
from ripieno.execution import Execution
from tests.counts import ATTACK
from tests.origins.hostile_mcp_servers.cases import BOTH, CASES, STDIO, Case
from tests.origins.hostile_mcp_servers.exchanges import BEHAVIOURS
from tests.origins.hostile_mcp_servers.resource_usage import Cost, warm_up, watching
from tests.support.live_processes import Living, living
from tests.support.toml_ensembles import Alerts, make_ensemble, surround

ROOT = pathlib.Path(__file__).parents[3]
#: Seconds after which an encounter hangs, and those of calls that are answered: far more than a loaded machine needs.
HANG, PATIENCE = 120.0, 20.0
#: Seconds of computing in which the event loop may do nothing else.
BUSY = 5.0
#: Bytes by which a flood may make us grow: five times the longest message, which stands in pieces, as one, and as
#: what is made of it (measured: 48 to 65 MiB, with what else grows in this process meanwhile).
GROWTH = 5 * 16 * 2**20
ALERTS = 110
#: What is the same over both is met over one of the two, by turns, and of floods every fifth, unless under attack.
ENCOUNTERS = [
    pytest.param(over, case, id=f"{over}-{case.behaviour}")
    for turn, case in enumerate(CASES)
    if ATTACK or not case.flood or turn % 5 == 0
    for over in ((case.over[turn % 2],) if case.over == BOTH and not ATTACK else case.over)
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
def warm() -> None:
    """What takes a second and memory once has been imported and started."""
    import ripieno.origins.mcp.session  # noqa: F401

    asyncio.run(warm_up())


def describe(over: str, case: Case, port: int, alive: Living) -> str:
    """The ensemble of that server."""
    transport, era = over.split("-", 1)
    if transport == "stdio":
        program = [sys.executable, "-S", "-m", "tests.origins.hostile_mcp_servers.stdio_server", case.behaviour, era]
        where = f'command = {program}\ndirectory = "{ROOT}"'
        more = f'[connection.environment]\nALIVE = "{alive.path}"'
    else:
        where, more = f'url = "http://127.0.0.1:{port}/{era}/{case.behaviour}"', ""
    # Only what is to reach its deadline has a short one.
    seconds = [case.seconds if end == "timeout" else PATIENCE for end in (case.category, case.after)]
    return f"""
        [ensemble]
        name = "it"
        [connection]
        origin = "mcp"
        {where}
        timeout = {case.seconds if case.category == "refused" else PATIENCE}
        {more}
        [overrides.it]
        timeout = {seconds[0]}
        [overrides.echo]
        timeout = {seconds[1]}
    """


async def call(ensemble: Ensemble, tool: str, **arguments: object) -> ResultCanister:
    invocation = InvocationCanister(identifier="call_1", name=tool, arguments=frozendict(arguments))
    return await EXECUTION.execute(invocation, ensembles=[ensemble])


def check_result(result: ResultCanister, category: str, words: str) -> None:
    found = "" if result.error is None else result.error.category
    assert found == category, result.text[:1000]
    said = result.text if result.error is None else result.error.message
    # A fault is read by people, too.
    assert result.error is None or all(one.isprintable() or one in "\n\t" for one in said), ascii(said)[:1000]
    assert re.search(words, said, re.DOTALL), said[:1000]


async def meet(case: Case, ensemble: Ensemble, alerts: Alerts) -> None:
    if case.category == "refused":
        async with asyncio.timeout(HANG):
            with pytest.raises(ConnectionFailure) as raised:
                await ensemble.connect()
        said = str(raised.value)
        assert re.search(case.words, said, re.DOTALL), said
        assert all(one.isprintable() or one == "\n" for one in said)
        assert len(said) < 4000
        return
    await ensemble.connect()
    async with asyncio.timeout(HANG):
        check_result(await call(ensemble, "it"), case.category, case.words)
    async with asyncio.timeout(HANG):
        check_result(await call(ensemble, "echo"), case.after, "")
    if case.alert:
        async with asyncio.timeout(HANG):
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
            async with asyncio.timeout(HANG):
                await ensemble.disconnect()
    assert cost.busy < BUSY
    assert cost.memory < GROWTH or not case.flood
    assert len(alerts) <= ALERTS
    if over.startswith("stdio"):
        # Who leaves its session is found all the same.
        assert alive.all_gone(30)
    # Nothing that a server says goes past us to the terminal.
    assert capfd.readouterr() == ("", "")


def test_every_behaviour_is_met() -> None:
    for module in ("calls", "notifications", "listings", "handshakes", "stdio_server", "http_behaviours"):
        importlib.import_module(f"tests.origins.hostile_mcp_servers.{module}")
    assert {case.behaviour for case in CASES} == set(BEHAVIOURS)


async def test_a_server_that_never_reads_cannot_hold_us(port: int, alive: Living) -> None:
    case = Case(behaviour="never_reads_again", seconds=0.25, after="timeout")
    async with watching(Cost()):
        ensemble = make_ensemble(describe(STDIO, case, port, alive), surround(alive.path.parent, Alerts()))
        async with ensemble:
            check_result(await call(ensemble, "it"), "", "^it$")
            async with asyncio.timeout(HANG):
                results = await asyncio.gather(*(call(ensemble, "echo", a="x" * 2**20) for _ in range(3)))
            # Telling the server of the cancellation waits for the pipe, too: the calls are given up after their grace.
            for result in results:
                check_result(result, "outcome_unknown", "timed out")
    assert alive.all_gone(30)


async def test_arguments_are_checked_in_time_whatever_the_pattern(port: int, alive: Living) -> None:
    case = Case(behaviour="patterns_that_take_for_ever")
    ensemble = make_ensemble(describe(STDIO, case, port, alive), surround(alive.path.parent, Alerts()))
    async with ensemble, asyncio.timeout(HANG):
        check_result(await call(ensemble, "it", a="a" * 40 + "!"), "validation", "must be text that matches")
    assert alive.all_gone(30)
