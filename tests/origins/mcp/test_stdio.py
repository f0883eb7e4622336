"""Servers of the Model Context Protocol as real processes: good ones, bad ones, and those that are killed."""

import asyncio
import os
import pathlib
import signal
import sys
from typing import Any

import pytest

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.exceptions import (
    ConfigurationInvalidity,
    ConnectionFailure,
    ExecutionFault,
    NameAbsence,
    NetworkFault,
    OutcomeUnknownFault,
    ToolFault,
    ValidationFault,
)
from tests.counts import count
from tests.origins.mcp.test_http import until
from tests.support.live_processes import Living
from tests.support.toml_ensembles import SERVERS, Alerts, call, held, make_ensemble, server, surround


async def fail_to_connect(ensemble: Ensemble) -> str:
    with pytest.raises(ConnectionFailure) as raised:
        await ensemble.connect()
    assert ensemble.state == "failed"
    assert raised.value.ensemble == ensemble.name
    return str(raised.value)


async def test_what_a_server_offers(surroundings: Surroundings, alerts: Alerts, alive: Living) -> None:
    more = '[overrides.add]\neffect = "read"\ntimeout = 7\n[overrides.greet]\ndescription = "Hello."\n'
    more += "[overrides.fail]\nenabled = false\n[overrides.gret]\nconfirm = true\n[defaults]\ntimeout = 11\n"
    ensemble = make_ensemble(server("well_behaved.py", alive=alive, more=more), surroundings)
    async with ensemble:
        assert ensemble.connection.protocol == "2026-07-28"
        assert (ensemble.connection.name, ensemble.connection.instructions) == ("kind 1.0", "Be kind.")
        add, greet = ensemble.access_invoker("add"), ensemble.access_invoker("greet")
        # A hint of the server is not taken for the truth; the operator's word is.
        assert (add.policy.effect, add.policy.timeout) == ("read", 7)
        assert (greet.policy.effect, greet.policy.timeout) == ("write", 11)
        assert (add.description, greet.description) == ("Adds two numbers.", "Hello.")
        assert add.arguments_schema["required"] == ("a", "b")
        assert "additionalProperties" not in add.arguments_schema
        assert "fail" not in ensemble.invokers
        assert [(alert.tool, alert.message) for alert in alerts] == [
            ("it.add", "2 hidden characters were removed from the definition of the tool."),
            ("it", "[overrides.gret] has no effect: the server offers no such tool. Did you mean 'greet'?"),
        ]
        assert alive.anybody
    assert alive.all_gone(30)


async def test_what_calls_give_and_what_the_server_is_given(
    surroundings: Surroundings, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary")
    (tmp_path / "sub").mkdir()
    variables = 'ONE = "env:TOKEN"\nTWO = "Bearer {env:TOKEN}{{}}"'
    text = server("well_behaved.py", connection='directory = "sub"', more=variables)
    steps: list[Any] = []
    async with make_ensemble(text, surroundings) as ensemble:
        environment = await call(ensemble, "environment")
        assert environment.keys() - {"LC_CTYPE"} <= {"PATH", "LANG", "TZ", "TMPDIR", "HOME", "ONE", "TWO"}
        assert (environment["ONE"], environment["TWO"]) == ("a-secret-token", "Bearer a-secret-token{}")
        assert await call(ensemble, "directory") == [TextualContent(text=str(tmp_path / "sub"))]
        assert await call(ensemble, "add", a=1, b=2) == [TextualContent(text="3")]
        assert await call(ensemble, "greet", name="Kim") == [TextualContent(text="Hello, Kim.")]
        assert await call(ensemble, "weather", city="Ulm") == {"city": "Ulm", "degrees": 20.5}
        assert await call(ensemble, "everything") == [
            TextualContent(text="text"),
            ImageContent(data=b"\0\1", mime_type="image/png"),
            AudioContent(data=b"\0\1", mime_type="audio/wav"),
            TextualContent(text="[Resource: page <https://example.org/page> text/html]"),
            TextualContent(text="# A", mime_type="text/markdown"),
            DocumentContent(data=b"\0\1", mime_type="application/pdf"),
            TextualContent(text="[image/png left out: it is not base64]"),
        ]
        assert await call(ensemble, "count", lambda *step: steps.append(step), to=3) == [TextualContent(text="done")]
        assert steps == [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]
        with pytest.raises(ExecutionFault, match="the cat is on the keyboard"):
            await call(ensemble, "fail")
        with pytest.raises(ValidationFault):
            await call(ensemble, "add", a=1)
        # It asks back, and nobody is there.
        with pytest.raises(ExecutionFault, match="elicitation was decline"):
            await call(ensemble, "book")
        sums = await asyncio.gather(*(call(ensemble, "add", a=number, b=1) for number in range(50)))
        assert sums == [[TextualContent(text=str(number + 1))] for number in range(50)]


@pytest.mark.parametrize("script", ["well_behaved.py", "misbehaving.py"])
async def test_cancelling_a_call_tells_the_server(script: str, surroundings: Surroundings, alive: Living) -> None:
    tool = "wait" if script == "well_behaved.py" else "deaf"
    began = asyncio.Event()
    async with make_ensemble(server(script, alive=alive), surroundings) as ensemble:
        task = asyncio.create_task(call(ensemble, tool, lambda *_: began.set()))
        async with asyncio.timeout(60):
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            told = await call(ensemble, "cancelled")
        # The server that heeds it returns when it was told; the other lists the requests that it was told of.
        assert told[0].text == "true" if script == "well_behaved.py" else len(told[0].text.split(",")) == 1
        assert told[0].text != "[]"
    assert alive.all_gone(30)


async def test_cancelling_a_call_while_it_is_sent_leaves_no_half_message(
    surroundings: Surroundings, alerts: Alerts
) -> None:
    async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
        for turns in range(1, 5):
            # Far more than a pipe holds.
            sending = asyncio.create_task(call(ensemble, "echo", a="x" * 2**21))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait((sending,))
            assert sending.cancelled()
        assert await call(ensemble, "echo") == [TextualContent(text="{}")]
    assert not alerts


async def test_a_server_that_dies_in_a_call(surroundings: Surroundings, alerts: Alerts, alive: Living) -> None:
    more = '[overrides.echo]\neffect = "read"\n[overrides.deaf]\neffect = "read"\n'
    ensemble = make_ensemble(server("misbehaving.py", alive=alive, more=more), surroundings)
    began = asyncio.Event()
    async with ensemble:
        harmless = asyncio.create_task(call(ensemble, "deaf", lambda *_: began.set()))
        await began.wait()
        with pytest.raises(OutcomeUnknownFault, match="ended with exit code 5") as unknown:
            await call(ensemble, "die")
        assert (unknown.value.category, unknown.value.code) == ("outcome_unknown", "server_lost")
        assert "check before repeating" in str(unknown.value.suggestion)
        with pytest.raises(NetworkFault, match="ended with exit code 5"):
            await harmless
        alert = await alerts.wait_for("lost its connection")
        assert "ended with exit code 5" in alert.message
        assert str(SERVERS / "misbehaving.py") in alert.message
        assert "\n  dying now" in alert.message
        for tool in ("echo", "garbage"):
            with pytest.raises(NetworkFault, match="nothing was sent"):
                await call(ensemble, tool)
        assert alive.all_gone(30)


async def test_a_server_that_ends_at_once_is_explained(surroundings: Surroundings, alive: Living) -> None:
    message = await fail_to_connect(make_ensemble(server("misbehaving.py", "dead", alive=alive), surroundings))
    assert message.startswith("Ensemble 'it': the MCP server ended with exit code 7.\nIts command: ")
    assert f"{SERVERS / 'misbehaving.py'} dead\n" in message
    assert "\n  line 29\n  no such key: TOKEN" in message
    assert "line 20\n" not in message
    assert alive.all_gone(30)


async def test_a_command_that_is_not_there(surroundings: Surroundings) -> None:
    text = '[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\ncommand = ["no-such-program"]'
    message = await fail_to_connect(make_ensemble(text, surroundings))
    assert "could not be started: There is no program 'no-such-program' in any folder of PATH" in message
    assert "Install it" in message


async def test_a_missing_variable_is_named_before_anything_starts(surroundings: Surroundings, alive: Living) -> None:
    text = server("misbehaving.py", alive=alive, more='A = "{env:TOKEN}{env:FIRST}"\nB = "env:SECOND"')
    message = await fail_to_connect(make_ensemble(text, surroundings))
    assert message.startswith("Ensemble 'it': the variables FIRST, SECOND are not set.")


async def test_lines_that_are_no_messages_are_counted(surroundings: Surroundings, alerts: Alerts) -> None:
    async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
        assert ensemble.connection.protocol == "2025-11-25"
        assert await call(ensemble, "garbage") == [TextualContent(text="sorry")]
        assert await call(ensemble, "huge") == [TextualContent(text="that was much")]
        assert await call(ensemble, "echo", a=[None, 10**30]) == [TextualContent(text=f'{{"a": [null, {10**30}]}}')]
        assert [alert.message for alert in alerts] == [
            "The MCP server of 'it' wrote a line to standard output that is not a message: 'this is no message'"
        ]
        with pytest.raises(ExecutionFault, match="violates its protocol: "):
            await call(ensemble, "nonsense")
        with pytest.raises(ValidationFault, match=r"^The server refused the call: bad colour$"):
            await call(ensemble, "refuse")
        assert await call(ensemble, "ask") == [TextualContent(text="refused with -32600")]
        with pytest.raises(ToolFault, match="not JSON"):
            await call(ensemble, "echo", a="\ud800")
        for _ in range(31):
            try:
                await call(ensemble, "garbage")
            except OutcomeUnknownFault:
                break
        assert "wrote 100 lines that are not messages" in (await alerts.wait_for("lost its connection")).message


async def test_structured_results(surroundings: Surroundings) -> None:
    async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
        structure = TextualContent(text='{"n":1}', mime_type="application/json")
        assert await call(ensemble, "rich") == [TextualContent(text="one"), structure]
        with pytest.raises(ExecutionFault, match=r"does not match the schema of its tool: (.|\n)*\none$") as raised:
            await call(ensemble, "poor")
        assert raised.value.code == "result_invalid"
        with pytest.raises(ExecutionFault, match="The structured result is not JSON"):
            await call(ensemble, "nan")


async def test_settings_that_nobody_checked_are_refused_when_opening(surroundings: Surroundings) -> None:
    text = '[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\ncommand = []'
    with pytest.raises(ConfigurationInvalidity, match="command must name a program"):
        await make_ensemble(text, surroundings).connect()


async def test_tools_that_cannot_be_used_are_left_out_each_with_its_reason(
    surroundings: Surroundings, alerts: Alerts
) -> None:
    async with make_ensemble(server("misbehaving.py", "odd"), surroundings) as ensemble:
        pages = range(3)
        assert set(ensemble.invokers) == {f"{kind}{page}" for kind in ("page", "results") for page in pages}
        assert ensemble.access_invoker("results0").results is None
    told = [(alert.tool, alert.message) for alert in alerts]
    # Four of them have the same name on each of the three pages, and are told once.
    assert sum(message.startswith("The tool is left out") for _, message in told) == 3 * 4 + 4
    for name, why in {
        "unschemed": "left out: the protocol does not allow its definition (inputSchema: Field required).",
        "two words": "left out: its name has other characters than letters, digits, _, - and ., or is too long.",
        "page0": "The tool is left out: another tool of the server has its name.",
        "results0": "The results of the tool are not checked: their schema is invalid.",
        "broken0": "the schema of its arguments",
        "nan0": "its schema is not JSON",
        "both0": "inputSchema: Field required",
        "task0": "as a task",
    }.items():
        assert any(tool == f"it.{name}" and why in message for tool, message in told), name
    for name, why in (("task0", "called as a task"), ("unschemed", "inputSchema: Field"), ("nan0", "not JSON")):
        with pytest.raises(NameAbsence, match=f"The tool 'it.{name}' is left out: .*{why}"):
            ensemble.access_invoker(name)


@pytest.mark.parametrize(("mode", "count", "what"), [("endless", 200, "20 pages"), ("many", 512, "512 tools")])
async def test_a_list_without_end_is_cut(
    mode: str, count: int, what: str, surroundings: Surroundings, alerts: Alerts
) -> None:
    async with make_ensemble(server("misbehaving.py", mode), surroundings) as ensemble:
        assert len(ensemble.invokers) == count
    assert [what in alert.message for alert in alerts] == [True]


async def test_cancelling_while_it_connects_leaves_nothing(surroundings: Surroundings, alive: Living) -> None:
    ensemble = make_ensemble(server("misbehaving.py", "mute", alive=alive), surroundings)
    task = asyncio.create_task(ensemble.connect())
    await held(alive)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive.all_gone(30)


async def test_a_call_under_way_when_the_ensemble_disconnects(surroundings: Surroundings) -> None:
    began = asyncio.Event()
    async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
        task = asyncio.create_task(call(ensemble, "deaf", lambda *_: began.set()))
        await began.wait()
    with pytest.raises(OutcomeUnknownFault):
        await task


async def test_python_is_ours_only_where_path_has_none(
    surroundings: Surroundings, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    text = server("misbehaving.py").replace(sys.executable, "python")
    async with make_ensemble(text, surroundings) as ensemble:
        assert await call(ensemble, "echo") == [TextualContent(text="{}")]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\nexit 42\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    assert "ended with exit code 42" in await fail_to_connect(make_ensemble(text, surroundings))


async def test_a_relative_command_begins_at_the_descriptor(tmp_path: pathlib.Path, alerts: Alerts) -> None:
    folder, workspace = tmp_path / "folder", tmp_path / "workspace"
    folder.mkdir()
    workspace.mkdir()
    script = folder / "serve.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {SERVERS / 'misbehaving.py'}\n")
    script.chmod(0o755)
    text = '[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\ncommand = ["./serve.sh"]'
    async with make_ensemble(text, surround(workspace, alerts), folder) as ensemble:
        assert await call(ensemble, "echo") == [TextualContent(text="{}")]


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

    def open_now() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), len(asyncio.all_tasks())

    async def cycle() -> None:
        async with make_ensemble(server("misbehaving.py"), surroundings) as ensemble:
            await call(ensemble, "echo")

    await cycle()
    before, processes = open_now(), children()
    for _ in range(count(1000, 100)):
        await cycle()
    assert open_now() == before
    assert children() == processes
