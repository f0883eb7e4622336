"""Requests on a WebSocket, by a real client of them: answers, continuations, and limits."""

import asyncio
import contextlib
import json
import pathlib
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ripieno.canisters import AssistantCanister, ResultCanister, UserCanister
from ripieno.canisters.events import Event
from ripieno.jsonvalues import parse
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import socket_memory
from ripieno.servers.http import bodies
from ripieno.servers.http.connections import Bounds
from ripieno.testing.scores.turns import Turn
from tests.servers.gateway.test_streams import Gated
from tests.support.gateways import KINDS, Backend, Front, before, fronting, kinds, says
from tests.support.loopback_servers import serving
from tests.support.openresponses_checker import check_stream

CHAT = KINDS["openai-chat"]
LAST = ("response.completed", "response.incomplete", "response.failed", "error")
UNKNOWN = {"type": "function_call_output", "call_id": "call_nowhere", "output": "42"}


def speak(asked: Asked) -> list[Event]:
    """Tells how many messages of the user it was sent."""
    count = sum(isinstance(one, UserCanister) for one in asked.canisters)
    return says(CHAT, [AssistantCanister.of(f"I read {count}.")])


def opening(front: Front, **settings: Any) -> connect:
    return connect(front.url.replace("http://", "ws://") + "/v1/responses", **settings)


@contextlib.asynccontextmanager
async def opened(
    folder: pathlib.Path, bounds: Bounds | None = None, **settings: Any
) -> AsyncGenerator[tuple[ClientConnection, Front, Backend], None]:
    async with (
        asyncio.timeout(60),
        before(folder, CHAT, speak, bounds=bounds, **settings) as (front, backend),
        opening(front) as socket,
    ):
        yield socket, front, backend


async def ask(socket: ClientConnection, given: object, **more: Any) -> list[dict[str, Any]]:
    """The messages of the answer to a request."""
    body = {"type": "response.create", "model": "small", "input": given, **more}
    await socket.send(json.dumps(body))
    return await hear(socket)


async def hear(socket: ClientConnection) -> list[dict[str, Any]]:
    messages = [json.loads(await socket.recv())]
    while messages[-1]["type"] not in LAST:
        messages.append(json.loads(await socket.recv()))
    return messages


async def complete(socket: ClientConnection, given: object, **more: Any) -> dict[str, Any]:
    """The response, which is complete and valid."""
    messages = await ask(socket, given, **more)
    assert messages[-1]["type"] == "response.completed", messages[-1]
    return dict(messages[-1]["response"])


async def fail(socket: ClientConnection, given: object, **more: Any) -> tuple[int, str]:
    (message,) = await ask(socket, given, **more)
    assert message["type"] == "error"
    assert message["error"]["message"]
    return message["status"], message["error"]["code"]


def text_of(response: dict[str, Any]) -> str:
    return str(response["output"][0]["content"][0]["text"])


@kinds
async def test_an_answer_has_the_events_of_a_stream(kind: Any, tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, kind, [Turn(text="Fine.")]) as (front, _), opening(front) as socket:
        messages = await ask(socket, [{"type": "message", "role": "user", "content": "How are you?"}])
    events = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in messages]
    check_stream([one.encode() for one in (*events, "data: [DONE]\n\n")])
    assert text_of(messages[-1]["response"]) == "Fine."


async def test_turns_without_a_continuation_share_nothing(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, _):
        assert [text_of(await complete(socket, "Hi.", store=False)) for _ in range(2)] == ["I read 1."] * 2


async def test_a_continuation_has_the_whole_conversation(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, backend):
        first = await complete(socket, "One.")
        second = await complete(socket, "Two.", previous_response_id=first["id"])
        third = await complete(socket, "Three.", previous_response_id=second["id"])
    assert (second["previous_response_id"], third["previous_response_id"]) == (first["id"], second["id"])
    said = [one.content[0] for one in backend.asked[-1].canisters if isinstance(one, UserCanister | AssistantCanister)]
    assert [one.text for one in said] == ["One.", "I read 1.", "Two.", "I read 2.", "Three."]


async def test_another_socket_does_not_know_a_response(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, front, _):
        first = await complete(socket, "One.")
        async with opening(front) as other:
            failed = await fail(other, "Two.", previous_response_id=first["id"])
            assert failed == (400, "previous_response_not_found")
            await complete(other, "Two.")


@pytest.mark.parametrize("identifier", ["resp_unknown", 7, {"a": []}])
async def test_an_unknown_response_is_not_found(identifier: object, tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, backend):
        assert await fail(socket, "Hi.", previous_response_id=identifier) == (400, "previous_response_not_found")
        assert backend.asked == []


async def test_only_the_latest_response_is_kept(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, _):
        first = await complete(socket, "One.")
        await complete(socket, "Two.")
        failed = await fail(socket, "Three.", previous_response_id=first["id"])
    assert failed == (400, "previous_response_not_found")


async def test_a_failed_continuation_is_forgotten(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, _):
        first = await complete(socket, "One.")
        assert await fail(socket, [UNKNOWN], previous_response_id=first["id"]) == (400, "unpaired_calls")
        failed = await fail(socket, "Two.", previous_response_id=first["id"])
    assert failed == (400, "previous_response_not_found")


async def test_results_of_calls_continue(tmp_path: pathlib.Path) -> None:
    from ripieno.testing import call, turn

    tool = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": False}
    score = [turn(calls=[call("add", "sum")]), turn("It is {sum}.", expect=["sum"])]
    async with before(tmp_path, CHAT, score) as (front, backend), opening(front) as socket:
        first = await complete(socket, "Add.", tools=[tool])
        result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "42"}
        second = await complete(socket, [result], tools=[tool], previous_response_id=first["id"])
    assert text_of(second) == "It is 42."
    assert any(isinstance(one, ResultCanister) for one in backend.asked[-1].canisters)


async def test_a_request_that_asks_no_model(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, backend):
        first = await complete(socket, "One.", generate=False)
        assert (first["output"], backend.asked) == ([], [])
        assert text_of(await complete(socket, "Two.", previous_response_id=first["id"])) == "I read 2."


# Messages that are no requests.


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_message"),
        ('{"type": "response.cancel"}', "invalid_message"),
        (b"{}", "invalid_message"),
        ('{"type": "response.create", "input": "Hi."}', "invalid_request_error"),
        ('{"type": "response.create", "model": "small", "input": "Hi.", "background": true}', "invalid_request_error"),
    ],
)
async def test_a_wrong_message_is_refused_and_the_socket_goes_on(
    message: str | bytes, code: str, tmp_path: pathlib.Path
) -> None:
    async with opened(tmp_path) as (socket, _, _):
        await socket.send(message)
        (refused,) = await hear(socket)
        assert (refused["type"], refused["status"], refused["error"]["code"]) == ("error", 400, code)
        await complete(socket, "Hi.")


# Limits.


async def closed(socket: ClientConnection) -> int:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await socket.recv()
    return socket.close_code or 0


async def test_a_message_that_is_too_large(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, Bounds(message_bytes=2000)) as (socket, _, _):
        await complete(socket, "a" * 1000)
        await socket.send("a" * 2001)
        assert await closed(socket) == 1009


@pytest.mark.parametrize(
    ("settings", "message", "refused"),
    [
        ({"concurrency": 0}, "{", (503, "server_overloaded")),
        ({"memory_bytes": 12 * 3000}, json.dumps("a" * 3000), (503, "overloaded")),
        ({"containers": 10}, json.dumps([[]] * 10), (413, "too_many_containers")),
        ({"messages": 2}, '{"input": [1, 2, 3]}', (413, "too_many_messages")),
    ],
)
async def test_a_message_has_the_limits_of_a_body_before_it_is_understood(
    settings: dict[str, int], message: str, refused: tuple[int, str], tmp_path: pathlib.Path
) -> None:
    async with opened(tmp_path, **settings) as (socket, _, _):
        for _ in range(3):
            await socket.send(message)
            (found,) = await hear(socket)
            assert (found["status"], found["error"]["code"]) == refused
        if "concurrency" not in settings:
            # Nothing is held, nor is a message counted twice.
            await complete(socket, "a" * 2000)
            await complete(socket, "a" * 2000)


async def test_a_long_message_is_read_in_a_thread(tmp_path: pathlib.Path) -> None:
    in_loop: list[bool] = []

    def noted(text: bytes, **limits: int) -> Any:
        if len(text) > 100_000:
            in_loop.append(threading.current_thread() is threading.main_thread())
        return parse(text, **limits)

    with pytest.MonkeyPatch.context() as patch:
        for module in (bodies, socket_memory):
            patch.setattr(module, "parse", noted)
        async with opened(tmp_path) as (socket, _, _):
            first = await complete(socket, "a" * 100_000)
            # As a message, and as the body of a request.
            assert in_loop == [False] * 2
            await complete(socket, "Two.", previous_response_id=first["id"])
            # What the socket remembers, and the body of a request.
            assert in_loop == [False] * 4


async def test_a_message_in_too_many_fragments(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (socket, _, _):
        with contextlib.suppress(ConnectionClosed):
            await socket.send([" "] * 2000)
        assert await closed(socket) == 1009


async def test_an_idle_socket_is_closed(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, socket_idle=0.3) as (socket, _, _):
        await complete(socket, "Hi.")
        assert await closed(socket) == 1008


async def test_the_time_of_a_socket_is_limited(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, socket_seconds=0.3) as (socket, _, _):
        (refused,) = await hear(socket)
        assert (refused["status"], refused["error"]["code"]) == (400, "websocket_connection_limit_reached")
        assert await closed(socket) == 1000


async def test_sockets_of_a_caller_are_limited(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, sockets=1) as (socket, front, _):
        with pytest.raises(InvalidStatus) as refused:
            async with opening(front):
                pass
        assert refused.value.response.status_code == 429
        assert json.loads(refused.value.response.body)["error"]["code"] == "too_many_sockets"
        await complete(socket, "Hi.")


async def test_a_page_of_another_origin_opens_no_socket(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (_, front, _):
        with pytest.raises(InvalidStatus) as refused:
            async with opening(front, origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403


async def test_a_key_is_needed(tmp_path: pathlib.Path) -> None:
    from hashlib import sha256

    keys = {"laptop": f"sha256:{sha256(b'secret').hexdigest()}"}
    async with before(tmp_path, CHAT, speak, keys=keys) as (front, _):
        with pytest.raises(InvalidStatus) as refused:
            async with opening(front):
                pass
        assert refused.value.response.status_code == 401
        async with opening(front, additional_headers={"authorization": "Bearer secret"}) as socket:
            await complete(socket, "Hi.")


async def test_one_answer_at_a_time_and_the_first_goes_on(tmp_path: pathlib.Path) -> None:
    body = json.dumps({"type": "response.create", "model": "small", "input": "Hi."})
    async with opened(tmp_path) as (socket, _, backend):
        await socket.send(body)
        await socket.send(body)
        messages = await hear(socket)
        refused = messages.pop() if messages[-1]["type"] == "error" else (await hear(socket))[0]
        assert (refused["status"], refused["error"]["code"]) == (409, "response_in_progress")
        if not messages or messages[-1]["type"] not in LAST:
            assert (await hear(socket))[-1]["type"] == "response.completed"
        assert len(backend.asked) == 1


# The end of the server.


async def test_the_end_of_the_server_is_reported_in_an_open_answer(tmp_path: pathlib.Path) -> None:
    backend = Gated(CHAT)
    async with serving(backend) as (url, _), contextlib.AsyncExitStack() as stack:
        bounds = Bounds(message_bytes=2**20, grace=0.0, farewell=30.0)
        front = await stack.enter_async_context(fronting(tmp_path, CHAT, f"{url}/v1", bounds=bounds))
        async with asyncio.timeout(60), opening(front) as socket:
            await socket.send(json.dumps({"type": "response.create", "model": "small", "input": "Hi."}))
            while json.loads(await socket.recv())["type"] != "response.output_text.delta":
                pass
            ending = asyncio.create_task(stack.aclose())
            last = (await hear(socket))[-1]
            assert await closed(socket) == 1012
            await ending
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_ending")


async def test_an_open_answer_ends_before_the_server_does(tmp_path: pathlib.Path) -> None:
    backend = Gated(CHAT)
    async with serving(backend) as (url, _), contextlib.AsyncExitStack() as stack:
        bounds = Bounds(message_bytes=2**20, grace=60.0)
        front = await stack.enter_async_context(fronting(tmp_path, CHAT, f"{url}/v1", bounds=bounds))
        async with asyncio.timeout(60), opening(front) as socket:
            await socket.send(json.dumps({"type": "response.create", "model": "small", "input": "Hi."}))
            while json.loads(await socket.recv())["type"] != "response.output_text.delta":
                pass
            ending = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0)
            backend.go.set()
            assert (await hear(socket))[-1]["type"] == "response.completed"
            assert await closed(socket) == 1012
            await ending
