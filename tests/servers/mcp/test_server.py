"""The MCP server of an application: its own ensembles, rules, limits and records, over the SDK's client in memory."""

import asyncio
import contextlib
import pathlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.subscriptions import ToolsListChanged
from mcp.types import ToolListChangedNotification

from ripieno.approvals import Answer, ConfirmationRequest, Edit
from ripieno.assembly import Assembly, assemble
from ripieno.canisters.events import Alert
from ripieno.descriptors import Policy
from ripieno.ensembles import Context, Definition, Ensemble, Opened
from ripieno.exceptions import ConfigurationInvalidity
from ripieno.schemas import Schema
from ripieno.servers.mcp import server
from ripieno.servers.mcp.calls import PENDING
from ripieno.servers.mcp.server import create_server
from ripieno.storage.places import Places
from tests.support.command_line import PATIENCE
from tests.support.mcp_server_process import ERAS
from tests.support.mcp_servers.well_behaved import app
from tests.support.scripted_models import Recording

READ = Policy(effect="read")


def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}."


class Growing:
    """An ensemble whose tools change while it is connected, as those of a server do."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.ensemble = Ensemble("growing", opener=self._open)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncGenerator[Opened, None]:
        def say(context: Context, arguments: dict[str, Any]) -> str:
            return context.invoker.name

        definitions = [Definition(name=one, schema=Schema.of({}), invocable=say, policy=READ) for one in self.names]
        yield Opened(connection=None, definitions=tuple(definitions))

    async def grow(self, *names: str) -> None:
        self.names = list(names)
        await self.ensemble.disconnect()
        await self.ensemble.connect()


@contextlib.asynccontextmanager
async def entered(folder: pathlib.Path, configuration: Any = None, **settings: Any) -> AsyncIterator[Assembly]:
    places = Places(configuration=folder / "configuration", state=folder / "state")
    (workspace := folder / "workspace").mkdir(exist_ok=True)
    async with assemble(configuration, workspace=workspace, places=places, **settings) as assembly:
        yield assembly


async def names_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


@pytest.mark.parametrize("mode", ERAS)
async def test_clients_are_told_of_tools_that_come_and_go(tmp_path: pathlib.Path, mode: str) -> None:
    growing = Growing("one")
    told = asyncio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with entered(tmp_path) as assembly, growing.ensemble, asyncio.timeout(PATIENCE):
        serving = create_server(assembly, ensembles=[growing.ensemble])
        async with Client(serving, mode=mode, message_handler=note) as client:
            assert await names_of(client) == ["one"]
            if mode == "auto":
                async with client.listen(tools_list_changed=True) as events:
                    # Nobody asks anything: the ensemble tells the server.
                    await growing.grow("one", "two")
                    assert isinstance(await anext(aiter(events)), ToolsListChanged)
            else:
                await growing.grow("one", "two")
                await told.wait()
            assert await names_of(client) == ["one", "two"]
            assert (await client.call_tool("two", {})).is_error is False  # type: ignore[union-attr]
            await growing.grow("two")
            with pytest.raises(MCPError, match="Unknown tool: one"):
                await client.call_tool("one", {})


async def test_a_newcomer_whose_name_is_taken_is_left_out_and_the_application_told(tmp_path: pathlib.Path) -> None:
    alerts: list[Alert] = []
    growing = Growing("other")
    holder = Ensemble.of_functions("holder", [greet], policy=READ)
    async with entered(tmp_path, alert=alerts.append) as assembly, growing.ensemble:
        serving = create_server(assembly, ensembles=[holder, growing.ensemble])
        async with Client(serving) as client:
            await growing.grow("greet", "other")
            assert await names_of(client) == ["greet", "other"]
            result: Any = await client.call_tool("greet", {"name": "you"})
            assert result.content[0].text == "Hello, you."
        with pytest.raises(ConfigurationInvalidity, match=r"holder\.greet"):
            create_server(assembly, ensembles=[holder, growing.ensemble])
    assert [alert.tool for alert in alerts] == ["growing.greet"]


async def test_tools_that_somebody_else_runs_are_not_offered(tmp_path: pathlib.Path) -> None:
    request = Ensemble.of_request([Definition(name="mine", schema=Schema.of({}))])
    async with entered(tmp_path) as assembly, Client(create_server(assembly, ensembles=[request])) as client:
        assert await names_of(client) == []
        with pytest.raises(MCPError, match="Unknown tool: mine"):
            await client.call_tool("mine", {})


async def test_calls_go_through_the_applications_pipeline(tmp_path: pathlib.Path) -> None:
    class Editor:
        async def confirm(self, request: ConfirmationRequest) -> Answer:
            assert request.tool == "house.greet"
            return Edit({"name": "everybody"})

    recorder = Recording()
    house = Ensemble.of_functions("house", [greet])
    async with (
        entered(tmp_path, confirmer=Editor(), recorder=recorder) as assembly,
        Client(create_server(assembly, ensembles=[house])) as client,
    ):
        result: Any = await client.call_tool("greet", {"name": "you"})
        assert result.content[0].text == "Hello, everybody."
        with pytest.raises(MCPError):
            await client.call_tool("g" * 10_000, {})
    # A client in this process has no connection: each of its calls is an entry of its own, found by its identifier.
    owners = {one.owner for one in recorder.records}
    assert len({one.conversation for one in recorder.records}) == len(owners) == 2
    assert {one.owner.split()[0] for one in recorder.records} == {"mcp"}
    assert [(one.stage, one.tool[:20]) for one in recorder.records] == [
        ("asked", "house.greet"),
        ("answered", "house.greet"),
        ("started", "house.greet"),
        ("finished", "house.greet"),
        ("refused", "g" * 20),
    ]
    assert len(recorder.records[-1].tool) == 100


async def test_rules_and_limits_hold(tmp_path: pathlib.Path) -> None:
    configuration = {"limits": {"wall": 0.1}, "confirmation": {"deny": ["house.greet"]}}

    async def sleep() -> None:
        await asyncio.sleep(PATIENCE)

    house = Ensemble.of_functions("house", [greet, sleep], policy=READ)
    async with (
        entered(tmp_path, configuration) as assembly,
        Client(create_server(assembly, ensembles=[house])) as client,
    ):
        denied: Any = await client.call_tool("greet", {"name": "you"})
        late: Any = await client.call_tool("sleep", {})
    assert denied.is_error
    assert "[confirmation] deny" in denied.content[0].text
    assert late.is_error
    assert "timed out" in late.content[0].text


async def test_callers_share_nothing(tmp_path: pathlib.Path) -> None:
    def remember(context: Context) -> list[str]:
        """Remembers that it was called."""
        kept: list[str] = context.namespace.setdefault("kept", [])
        kept.append("once")
        return kept

    house = Ensemble.of_functions("house", [remember], policy=READ)
    async with entered(tmp_path) as assembly, Client(create_server(assembly, ensembles=[house])) as client:
        for _ in range(2):
            result: Any = await client.call_tool("remember", {})
            assert result.content[0].text == '["once"]'


@pytest.mark.parametrize("mode", ERAS)
async def test_a_flood_of_progress_is_thinned_and_ends_at_its_end(tmp_path: pathlib.Path, mode: str) -> None:
    many = 10_000

    async def hurry(context: Context) -> str:
        """Tells of each step at once."""
        for done in range(1, many + 1):
            context.progress(done, many)
        return "done"

    told: list[float] = []
    last = asyncio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        told.append(done)
        if done == many:
            last.set()

    house = Ensemble.of_functions("house", [hurry], policy=READ)
    async with entered(tmp_path) as assembly, Client(create_server(assembly, ensembles=[house]), mode=mode) as client:
        await client.call_tool("hurry", {}, progress_callback=note)
        async with asyncio.timeout(PATIENCE):
            await last.wait()
    assert told == sorted(told)
    assert len(told) <= PENDING


async def test_a_call_that_is_cancelled_at_once_does_not_go_on(tmp_path: pathlib.Path) -> None:
    """It begins as soon as it is sealed, so it may run before whoever waits for it does."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.set()

    house = Ensemble.of_functions("house", [wait], policy=READ)
    async with entered(tmp_path) as assembly, Client(create_server(assembly, ensembles=[house])) as client:
        for rounds in range(40):
            began.clear()
            ended.clear()
            call = asyncio.create_task(client.call_tool("wait", {}))
            for _ in range(rounds):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            if began.is_set():
                async with asyncio.timeout(PATIENCE):
                    await ended.wait()


async def test_so_many_calls_run_at_once_and_no_more(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PARALLEL", 2)
    waiting: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        waiting.put_nowait(future)
        await future

    house = Ensemble.of_functions("house", [wait], policy=READ)
    async with entered(tmp_path) as assembly, Client(create_server(assembly, ensembles=[house])) as client:
        calls = [asyncio.create_task(client.call_tool("wait", {})) for _ in range(3)]
        first, _ = await waiting.get(), await waiting.get()
        # Whatever else could begin has had its time.
        await client.list_tools(cache_mode="refresh")
        assert waiting.empty()
        first.set_result(None)
        (await waiting.get()).cancel()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_bug_of_the_server_says_only_that_it_is_one(
    tmp_path: pathlib.Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with entered(tmp_path) as assembly:
        serving = create_server(assembly)
        async with Client(serving, mode=mode) as client:
            # Something that cannot be: the offer is gone.
            del serving._listing.offer  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(MCPError) as error:
                await client.call_tool("read_file", {"path": "x"})
    assert (error.value.code, error.value.message) == (-32603, "Internal server error (AttributeError)")
    assert "offer" in caplog.text


async def test_there_is_one_page(tmp_path: pathlib.Path) -> None:
    async with entered(tmp_path) as assembly, Client(create_server(assembly)) as client:
        with pytest.raises(MCPError) as error:
            await client.list_tools(cursor="more")
    assert error.value.code == -32602


@pytest.mark.parametrize("mode", ERAS)
async def test_results_of_a_server_behind_it_are_what_that_server_gives(tmp_path: pathlib.Path, mode: Any) -> None:
    wrapping = pathlib.Path(__file__).parents[2] / "support" / "mcp_servers" / "well_behaved.py"
    passed = {
        "ensemble": {"name": "passed", "prefix": ""},
        "connection": {"origin": "mcp", "command": [sys.executable, str(wrapping)]},
        "defaults": {"effect": "read"},
    }
    async with (
        asyncio.timeout(PATIENCE),
        entered(tmp_path, {"ensembles": [passed]}) as assembly,
        Client(create_server(assembly), mode=mode) as ours,
        Client(app, mode=mode) as theirs,
    ):
        for tool in ("greet", "measure", "spell", "describe"):
            for name in ("Ada", "7", "[1]", ""):
                expected = await theirs.call_tool(tool, {"name": name})
                result = await ours.call_tool(tool, {"name": name})
                assert result.is_error is False, (tool, name, result.content)
                assert result.structured_content == expected.structured_content, (tool, name)
