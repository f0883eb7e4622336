"""The sub-application over HTTP, mounted in another one: answers, streams, errors, and requests that are refused."""

import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from ripieno.ensembles import Context
from ripieno.servers.chat.application import create_application
from ripieno.servers.chat.chat import Chat
from ripieno.servers.http.server import serve
from tests.support.chat_schemas import check_event, checking
from tests.support.chats import Written, chatting
from tests.support.scripted_models import invoke, invokes, says, scripted, tool

ADA = {"x-user": "ada"}


async def signed_in(request: Request) -> str | None:
    return request.headers.get("x-user")


@contextlib.asynccontextmanager
async def client(tmp_path: pathlib.Path) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of a chat. Its model writes once, and is done then."""
    model = scripted(invokes(invoke("write", "one")), says("Done."))
    async with chatting(tmp_path, model, tool("write", effect="write")) as chat, over_http(chat) as one:
        yield one


@contextlib.asynccontextmanager
async def over_http(chat: Chat) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of a chat that is mounted beneath a path. What it sends and gets fits the OpenAPI document."""
    application = create_application(chat, authenticate=signed_in, origins="https://app.example.com")
    async with (
        serve(Starlette(routes=[Mount("/deep/chat", application)])) as url,
        httpx2.AsyncClient(base_url=f"{url}/deep/chat", headers=ADA, **checking()) as one,
    ):
        yield one


async def begin(one: httpx2.AsyncClient) -> str:
    created = await one.post("/conversations", json={"title": "First"})
    return f"/conversations/{created.json()['identifier']}"


async def events(one: httpx2.AsyncClient, path: str, until: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream, until one of a kind: identifier and data."""
    found: list[tuple[str, dict[str, Any]]] = []
    position = ""
    async with one.stream("GET", f"{path}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                position = line[4:]
            elif line.startswith("data: "):
                found.append((position, check_event(json.loads(line[6:]))))
                if found[-1][1]["type"] == until:
                    break
    return found


async def test_a_whole_conversation(tmp_path: pathlib.Path) -> None:
    async with client(tmp_path) as one:
        path = await begin(one)
        position = (await one.get(path)).json()["position"]
        assert (await one.post(f"{path}/messages", json={"text": "Write."})).status_code == 200
        first = await events(one, path, "ConductEnded", **{"last-event-id": position})
        kinds = [data["type"] for _, data in first]
        assert kinds[0] == "Said"
        assert kinds[-2:] == ["QuestionsAsked", "ConductEnded"]
        (question,) = (await one.get(path)).json()["questions"]
        assert (await one.get("/questions")).json()["conversations"] == {path.rpartition("/")[2]: [question]}
        given = {"invocation": "one", "answer": "approve", "digest": question["digest"]}
        assert (await one.post(f"{path}/answers", json={**given, "digest": "0"})).status_code == 409
        assert (await one.post(f"{path}/answers", json=given)).json() == {"left": 0}
        # A reader that comes back gets the rest.
        second = await events(one, path, "ConductEnded", **{"last-event-id": first[-1][0]})
        assert second[-1][1]["finish"] == "stop"
        assert not {identifier for identifier, _ in first} & {identifier for identifier, _ in second}
        snapshot = (await one.get(path)).json()
        assert [message["type"] for message in snapshot["messages"]] == [
            "user",
            "assistant",
            "invocation",
            "result",
            "assistant",
        ]
        assert (await one.patch(path, json={"title": "Second"})).status_code == 200
        (listed,) = (await one.get("/conversations")).json()["conversations"]
        assert (listed["title"], listed["turns"], listed["calls"]) == ("Second", 2, 1)
        assert (await one.get("/usage")).json()["total"]["conversations"] == 1
        assert (await one.delete(path)).status_code == 200
        assert (await one.get(path)).status_code == 404
        lost = await events(one, await begin(one), "Resync", **{"last-event-id": "0-0"})
        assert [data for _, data in lost] == [{"type": "Resync"}]


@pytest.mark.parametrize(
    ("method", "headers", "content", "expected"),
    [
        (
            "POST",
            {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
            b"{}",
            (403, "origin_not_allowed"),
        ),
        ("POST", {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9"}, b"{}", (403, "origin_not_allowed")),
        ("GET", {"sec-fetch-site": "cross-site"}, None, (403, "origin_not_allowed")),
        ("POST", {"sec-fetch-site": "same-site", "origin": "https://app.example.com"}, b"{}", (200, None)),
        ("POST", {"sec-fetch-site": "same-origin"}, b"{}", (200, None)),
        ("POST", {"content-type": "text/plain"}, b"{}", (415, "unsupported_media_type")),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, b"a=b", (415, "unsupported_media_type")),
        ("POST", {}, b"[]", (400, None)),
        ("POST", {}, b'{"title": 1}', (400, None)),
        ("POST", {}, b'{"a": 1, "a": 2}', (400, "invalid_json")),
        ("POST", {}, b'{"title": "' + b"x" * 201 + b'"}', (400, None)),
        ("POST", {"x-user": ""}, b"{}", (200, None)),
    ],
)
async def test_requests_that_are_refused(
    tmp_path: pathlib.Path,
    method: str,
    headers: dict[str, str],
    content: bytes | None,
    expected: tuple[int, str | None],
) -> None:
    status, code = expected
    async with client(tmp_path) as one:
        sent = {"content-type": "application/json", **headers}
        answer = await one.request(method, "/conversations", headers=sent, content=content)
        assert answer.status_code == status
        if status != 200:
            assert answer.json()["error"]["code"] == code
            assert answer.json()["error"]["message"]


SIZES = {"type": "object", "properties": {"size": {"type": "integer", "default": 1, "maximum": 50}}}


async def order(context: Context, arguments: dict[str, Any]) -> str:
    return str(await context.inquire("Which size?\u202e", SIZES))


@contextlib.asynccontextmanager
async def asked(tmp_path: pathlib.Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, str, str], None]:
    """A client of a chat whose tool asks for a size during its run; the conversation, and the position before it."""
    model = scripted(invokes(invoke("order", "one")), says("Done."))
    async with chatting(tmp_path, model, tool("order", order)) as chat, over_http(chat) as one:
        path = await begin(one)
        position = (await one.get(path)).json()["position"]
        assert (await one.post(f"{path}/messages", json={"text": "Order."})).status_code == 200
        await events(one, path, "QuestionsAsked", **{"last-event-id": position})
        yield one, path, position


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"answer": "edit", "arguments": {"size": 42}}, "42}"),
        ({"answer": "approve"}, "1}"),
        ({"answer": "deny", "reason": "Neither."}, "None"),
    ],
)
async def test_a_tool_asks_during_its_run_and_is_answered(
    tmp_path: pathlib.Path, answer: dict[str, Any], result: str
) -> None:
    async with asked(tmp_path) as (one, path, position):
        # A page that is loaded now shows the question, with every character visible.
        for _ in range(2):
            snapshot = (await one.get(path)).json()
            (question,) = snapshot["questions"]
            assert (snapshot["state"], question["kind"], question["text"]) == ("running", "input", "Which size?\\u202e")
            assert (question["schema"], question["defaults"]) == (SIZES, {"size": 1})
            (waiting,) = (await one.get("/questions")).json()["conversations"].values()
            assert waiting == [question]
        given = {"invocation": "one", "digest": question["digest"], **answer}
        for wrong, status in (
            ({**given, "digest": "0" * 64}, 409),
            ({**given, "invocation": "two"}, 409),
            ({**given, "answer": "maybe"}, 400),
            ({**given, "answer": "approve", "always": True}, 400),
            ({**given, "answer": "edit", "arguments": [1]}, 400),
            ({**given, "answer": "edit", "arguments": {"size": 99}}, 400),
            ({**given, "answer": "edit", "arguments": {"size": "huge"}}, 400),
        ):
            assert (await one.post(f"{path}/answers", json=wrong)).status_code == status, wrong
        assert (await one.post(f"{path}/answers", json=given, headers={"x-user": "bob"})).status_code == 404
        assert (await one.post(f"{path}/answers", json=given)).json() == {"left": 0}
        assert (await one.post(f"{path}/answers", json=given)).status_code == 409
        got = [data for _, data in await events(one, path, "ConductEnded", **{"last-event-id": position})]
        (answered,) = (data for data in got if data["type"] == "QuestionAnswered")
        assert answered == {"type": "QuestionAnswered", "invocation": "one", "answer": answer["answer"]}
        (ended,) = (data for data in got if data["type"] == "ResultReady")
        assert result in ended["result"]["content"][0]["text"]


async def test_what_was_allowed_is_listed_and_taken_back_by_its_owner(tmp_path: pathlib.Path) -> None:
    written = Written()
    turns = [invokes(invoke("write", name, text=name)) for name in ("one", "two", "three")]
    model = scripted(*turns[:2], says("Both."), turns[2], says("All."))
    async with chatting(tmp_path, model, written.definition) as chat, over_http(chat) as one:
        path = await begin(one)
        position = (await one.get(path)).json()["position"]
        await one.post(f"{path}/messages", json={"text": "Write."})
        await events(one, path, "ConductEnded", **{"last-event-id": position})
        snapshot = (await one.get(path)).json()
        (question,) = snapshot["questions"]
        assert [way["exact"] for way in question["always"]] == [False, True]
        assert question["always"][0]["calls"] == "Later calls of mine.write with any arguments"
        given = {"invocation": "one", "answer": "approve", "always": True, "digest": question["digest"]}
        await one.post(f"{path}/answers", json=given)
        await events(one, path, "ConductEnded", **{"last-event-id": snapshot["position"]})
        assert written.texts == ["one", "two"]
        identifier = path.rpartition("/")[2]
        (allowed,) = (await one.get("/allowances")).json()["conversations"][identifier]
        assert (allowed["tool"], allowed["arguments"]) == ("mine.write", None)
        # Another owner neither sees it nor takes it back, and does not learn whether it is there.
        bob, address = {"x-user": "bob"}, f"{path}/allowances/{allowed['identifier']}"
        assert (await one.get("/allowances", headers=bob)).json() == {"conversations": {}}
        foreign = await one.delete(address, headers=bob)
        unknown = await one.delete(f"{path}/allowances/unknown")
        assert (foreign.status_code, foreign.json()) == (unknown.status_code, unknown.json())
        assert foreign.status_code == 404
        assert (await one.delete(address)).json() == {}
        assert (await one.delete(address)).status_code == 404
        assert (await one.get("/allowances")).json() == {"conversations": {}}
        (line,) = chat.journal.lines(identifier, stage="revoked")
        assert (line.owner, line.tool) == ("ada", "mine.write")
        assert json.loads(line.body or "")["details"]["rule"] == "mine.write with any arguments"
        position = (await one.get(path)).json()["position"]
        await one.post(f"{path}/messages", json={"text": "Again."})
        await events(one, path, "QuestionsAsked", **{"last-event-id": position})
        assert written.texts == ["one", "two"]


async def test_a_run_that_asks_can_be_stopped(tmp_path: pathlib.Path) -> None:
    async with asked(tmp_path) as (one, path, position):
        (question,) = (await one.get(path)).json()["questions"]
        assert (await one.post(f"{path}/stop")).status_code == 415
        assert (await one.post(f"{path}/stop", json={})).status_code == 200
        got = [data for _, data in await events(one, path, "ConductEnded", **{"last-event-id": position})]
        assert {"type": "QuestionAnswered", "invocation": "one", "answer": "none"} in got
        assert got[-1]["finish"] == "cancelled"
        found = (await one.get("/questions")).json()
        assert (found["conversations"], found["running"]) == ({}, [])
        given = {"invocation": "one", "digest": question["digest"], "answer": "approve"}
        assert (await one.post(f"{path}/answers", json=given)).status_code == 409


async def test_others_get_nothing(tmp_path: pathlib.Path) -> None:
    async with client(tmp_path) as one:
        path = await begin(one)
        foreign, unknown = dict[str, Any](), dict[str, Any]()
        for found, place in ((foreign, path), (unknown, f"/conversations/{'0' * 32}")):
            for method, rest in (
                ("GET", ""),
                ("PATCH", ""),
                ("DELETE", ""),
                ("POST", "/messages"),
                ("POST", "/answers"),
                ("POST", "/results"),
                ("POST", "/stop"),
                ("POST", "/resume"),
                ("GET", "/events"),
            ):
                body = {"text": "Hi.", "invocation": "one"} if method in ("POST", "PATCH") else None
                answer = await one.request(method, f"{place}{rest}", json=body, headers={"x-user": "bob"})
                found[method, rest] = (answer.status_code, answer.content)
        # What another owner has, and what nobody has, cannot be told apart.
        assert foreign == unknown
        assert {status for status, _ in foreign.values()} == {404}
        del one.headers["x-user"]
        assert (await one.get("/conversations")).status_code == 401
        assert (await one.get(path)).json()["error"]["code"] == "unauthenticated"
