"""What a server asks of its client and tells it beside results, in both eras: questions, words, other lists."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.server.subscriptions import PromptsListChanged

from ripieno.approvals import Answer, ConfirmationRequest, Edit
from ripieno.ensembles import Context
from ripieno.servers.mcp import calls
from ripieno.servers.mcp import client as clients
from ripieno.servers.mcp.client import current_client
from ripieno.servers.mcp.server import EnsembleServer, create_server
from ripieno.storage.records import Record
from tests.servers.mcp.test_server import entered
from tests.support.command_line import PATIENCE
from tests.support.mcp_server_process import ERAS
from tests.support.scripted_models import Recording, ensemble, tool

_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_Fill = Callable[[ClientRequestContext, types.ElicitRequestParams], Awaitable[types.ElicitResult]]


async def greet(context: Context, arguments: dict[str, Any]) -> str:
    values = await context.inquire("What is your name?", _SCHEMA)
    return "Nobody is there." if values is None else f"Hello, {values['name']}."


async def dig(context: Context, arguments: dict[str, Any]) -> str:
    nested = {"type": "object", "properties": {"deep": {"type": "object"}}}
    values = await context.inquire("How deep?", nested)
    return "Nobody is there." if values is None else f"It is {dict(values)}."


async def interview(context: Context, arguments: dict[str, Any]) -> str:
    first = await context.inquire("Your name?", _SCHEMA)
    second = await context.inquire("And your mother's?", _SCHEMA)
    return f"{first and first['name']}, {second and second['name']}"


async def think(context: Context, arguments: dict[str, Any]) -> str:
    client = current_client()
    assert client is not None
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Think."))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=9))
    answers = await client.ask({"thought": request, "folders": types.ListRootsRequest()})
    thought, folders = answers["thought"], answers["folders"]
    assert isinstance(thought, types.CreateMessageResult)
    assert isinstance(thought.content, types.TextContent)
    assert isinstance(folders, types.ListRootsResult)
    return f"{thought.content.text} in {folders.roots[0].uri}"


async def report(context: Context, arguments: dict[str, Any]) -> str:
    for done, message in enumerate(("begun", "", "nearly done")):
        context.progress(done, 2, message)
    return "reported"


def filling(*names: str) -> tuple[_Fill, list[str]]:
    """A person who gives these names, one after the other, and what they were asked."""
    asked: list[str] = []
    left = list(names)

    async def fill(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        if not left:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"name": left.pop(0)})

    return fill, asked


def text_of(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


@contextlib.asynccontextmanager
async def serving(folder: pathlib.Path, *tools: Callable[..., Any], **settings: Any) -> AsyncIterator[EnsembleServer]:
    asking = ensemble(*(tool(one.__name__, one, effect="read", timeout=60) for one in tools))
    async with entered(folder, **settings) as assembly, asyncio.timeout(PATIENCE):
        yield create_server(assembly, ensembles=[asking])


async def raw(client: Client, name: str, **more: Any) -> types.CallToolResult | types.InputRequiredResult:
    """One request of a call, whatever it is answered."""
    return await client.session.call_tool(name, {}, allow_input_required=True, **more)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_person_behind_the_client_is_asked_and_the_call_stays_one(tmp_path: pathlib.Path, mode: str) -> None:
    recorder = Recording()
    fill, asked = filling("Ada", "Anne")
    async with (
        serving(tmp_path, interview, recorder=recorder) as server,
        Client(server, mode=mode, elicitation_callback=fill) as client,
    ):
        result = await client.call_tool("interview", {})
    assert text_of(result) == "Ada, Anne"
    assert asked == ["Your name?", "And your mother's?"]
    assert [record.stage for record in recorder.records] == ["started", "finished"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_person_who_declines_or_says_nonsense_gives_no_values(tmp_path: pathlib.Path, mode: str) -> None:
    async def fill(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": 3})

    refuse, _ = filling()
    async with serving(tmp_path, greet) as server:
        for answer in (fill, refuse):
            async with Client(server, mode=mode, elicitation_callback=answer) as client:
                assert text_of(await client.call_tool("greet", {})) == "Nobody is there."


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("tool", [greet, dig])
async def test_the_applications_confirmer_is_asked_where_the_client_cannot_be(
    tmp_path: pathlib.Path, mode: str, tool: Callable[..., Any]
) -> None:
    class Person:
        async def confirm(self, request: ConfirmationRequest) -> Answer:
            assert request.question is not None
            return Edit({"name": "Grace"} if tool is greet else {"deep": {}})

    fill, asked = filling("never")
    async with serving(tmp_path, tool, confirmer=Person()) as server:
        # A form has no place for what is nested.
        callback = fill if tool is dig else None
        async with Client(server, mode=mode, elicitation_callback=callback) as client:
            expected = "Hello, Grace." if tool is greet else "It is {'deep': frozendict.frozendict({})}."
            assert text_of(await client.call_tool(tool.__name__, {})) == expected
    assert asked == []


@pytest.mark.parametrize("mode", ERAS)
async def test_a_clients_model_and_folders_are_asked_for(tmp_path: pathlib.Path, mode: str) -> None:
    async def sample(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="I think"))

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada")])

    async with (
        serving(tmp_path, think) as server,
        Client(server, mode=mode, sampling_callback=sample, list_roots_callback=roots) as client,
    ):
        assert text_of(await client.call_tool("think", {})) == "I think in file:///home/ada"


async def test_what_a_client_has_not_declared_is_named(tmp_path: pathlib.Path) -> None:
    async with serving(tmp_path, think) as server:
        async with Client(server, mode="legacy") as client:
            result = await client.call_tool("think", {})
            assert result.is_error
            assert "does not support sampling/createMessage" in text_of(result)
        async with Client(server) as client:
            with pytest.raises(MCPError) as failure:
                await client.call_tool("think", {})
            assert failure.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
            assert failure.value.error.data == {"requiredCapabilities": {"sampling": {}}}
    assert current_client() is None


async def test_a_state_is_good_for_one_request_of_its_own_call(tmp_path: pathlib.Path) -> None:
    fill, _ = filling()
    answer = types.ElicitResult(action="accept", content={"name": "Ada"})
    async with serving(tmp_path, greet, interview) as server, Client(server, elicitation_callback=fill) as client:
        asked = await raw(client, "greet")
        assert isinstance(asked, types.InputRequiredResult)
        assert asked.input_requests is not None
        answers = dict.fromkeys(asked.input_requests, answer)
        for name, state in (("greet", f"{asked.request_state}x"), ("interview", asked.request_state)):
            with pytest.raises(MCPError, match="No call waits with this requestState"):
                await raw(client, name, input_responses=answers, request_state=state)
        again = await raw(client, "greet", input_responses={}, request_state=asked.request_state)
        assert isinstance(again, types.InputRequiredResult)
        assert again.request_state != asked.request_state
        with pytest.raises(MCPError, match="No call waits"):
            await raw(client, "greet", input_responses=answers, request_state=asked.request_state)
        done = await raw(client, "greet", input_responses=answers, request_state=again.request_state)
        assert isinstance(done, types.CallToolResult)
        assert text_of(done) == "Hello, Ada."


async def test_a_client_that_never_answers_is_not_waited_for_and_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PATIENCE", 0.2)
    ended = asyncio.Event()

    class Watching(Recording):
        def record(self, records: Sequence[Record]) -> None:
            super().record(records)
            if records[-1].stage == "finished":
                ended.set()

    fill, _ = filling()
    recorder = Watching()
    async with (
        serving(tmp_path, greet, recorder=recorder) as server,
        Client(server, elicitation_callback=fill) as client,
    ):
        asked = await raw(client, "greet")
        assert isinstance(asked, types.InputRequiredResult)
        await ended.wait()
        late = await raw(client, "greet", input_responses={}, request_state=asked.request_state)
        assert isinstance(late, types.CallToolResult)
        assert text_of(late) == "Nobody is there."
    assert [record.stage for record in recorder.records] == ["started", "finished"]


async def test_calls_that_wait_when_the_server_ends_are_cancelled(tmp_path: pathlib.Path) -> None:
    recorder = Recording()
    fill, _ = filling()
    async with serving(tmp_path, greet, recorder=recorder) as server:
        async with Client(server, elicitation_callback=fill) as client:
            assert isinstance(await raw(client, "greet"), types.InputRequiredResult)
        [_, finished] = recorder.records
    assert finished.result is not None
    assert finished.result.error is not None
    assert finished.result.error.category == "cancelled"


async def test_only_so_many_calls_wait(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CAPACITY", 2)
    fill, _ = filling()
    async with serving(tmp_path, greet) as server, Client(server, elicitation_callback=fill) as client:
        waiting = [await raw(client, "greet") for _ in range(2)]
        assert all(isinstance(one, types.InputRequiredResult) for one in waiting)
        refused = await raw(client, "greet")
        assert isinstance(refused, types.CallToolResult)
        assert text_of(refused) == "Nobody is there."


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_that_nobody_counts_is_told_in_words_where_they_are_wanted(
    tmp_path: pathlib.Path, mode: Any
) -> None:
    told: list[str] = []
    counted: list[float] = []

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        told.append(f"{params.level}: {params.data}")

    async def count(done: float, total: float | None, message: str | None) -> None:
        counted.append(done)

    level: Any = "info" if mode == "auto" else None
    async with serving(tmp_path, report) as server:
        async with Client(server, mode=mode, logging_callback=note, log_level=level) as client:
            await client.call_tool("report", {})
            assert told == ["info: begun", "info: nearly done"]
            await client.call_tool("report", {}, progress_callback=count)
            assert counted == [0, 1, 2]
            told.clear()
            if mode == "legacy":
                with pytest.warns(match="deprecated"):
                    await client.set_logging_level("warning")
                await client.call_tool("report", {})
        if mode == "auto":
            async with Client(server, logging_callback=note) as client:
                await client.call_tool("report", {})
    assert told == []


@pytest.mark.parametrize("mode", ERAS)
async def test_what_an_application_serves_beside_the_tools_is_served_and_told_of(
    tmp_path: pathlib.Path, mode: Any
) -> None:
    told = asyncio.Event()

    async def prompts(context: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="mine")])

    async def note(message: Any) -> None:
        if isinstance(message, types.PromptListChangedNotification):
            told.set()

    async with serving(tmp_path, report) as server:
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, prompts)
        async with Client(server, mode=mode, message_handler=note) as client:
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["mine"]
            if mode == "auto":
                async with client.listen(prompts_list_changed=True) as events:
                    await server.changes.publish(PromptsListChanged())
                    assert isinstance(await anext(aiter(events)), PromptsListChanged)
            else:
                await server.changes.publish(PromptsListChanged())
                await told.wait()
