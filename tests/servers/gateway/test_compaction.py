"""Compactions: a summary by the model, sealed for its caller, which later requests send back."""

import contextlib
import hashlib
import json
import pathlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from ripieno.canisters import AssistantCanister, InvocationCanister, ResultCanister, UserCanister
from ripieno.canisters.events import Event
from ripieno.conducting.history.summary import SUMMARY
from ripieno.exceptions import InputError
from ripieno.models.protocol import Asked
from ripieno.servers.gateway.sealing import Compaction, Sealer, Unsealed
from tests.servers.gateway.test_sockets import complete, opening, text_of
from tests.support.gateways import KINDS, Backend, before, says
from tests.support.openresponses_schema import satisfies

CHAT = KINDS["openai-chat"]
KEYS = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("ada", "ben")}
HISTORY = [
    {"type": "message", "role": "user", "content": "My name is Alice."},
    {"type": "message", "role": "assistant", "content": "Hello Alice."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "I tune an oboe."}]},
]
CALL = {"type": "function_call", "call_id": "call_1", "name": "tune", "arguments": '{"at":442}'}
TOOL = {"type": "function", "name": "tune", "parameters": {"type": "object", "properties": {}}}


def speak(asked: Asked) -> list[Event]:
    last = asked.canisters[-1]
    asks = isinstance(last, UserCanister) and "<conversation>" in last.content[0].text
    return says(CHAT, [AssistantCanister.of("Alice tunes an oboe." if asks else "Fine.")])


@contextlib.asynccontextmanager
async def opened(folder: pathlib.Path, **settings: Any) -> AsyncGenerator[tuple[httpx2.AsyncClient, Backend], None]:
    async with before(folder, CHAT, speak, **settings) as (front, backend), front.plain() as client:
        yield client, backend


async def compact(client: httpx2.AsyncClient, given: object, **more: Any) -> dict[str, Any]:
    headers = more.pop("headers", {})
    body = {"model": "small", "input": given, **more}
    response = await client.post("/v1/responses/compact", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def post(client: httpx2.AsyncClient, given: object, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
    return await client.post("/v1/responses", json={"model": "small", "input": given, **more}, headers=headers)


async def test_the_answer_has_the_users_messages_and_a_sealed_item(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (client, backend):
        body = await compact(client, HISTORY, instructions="Be brief.", prompt_cache_key="key")
    satisfies(body, "CompactResource")
    assert (body["object"], body["output"][-1]["type"]) == ("response.compaction", "compaction")
    assert [one["content"][0]["text"] for one in body["output"][:-1]] == ["My name is Alice.", "I tune an oboe."]
    assert body["output"][-1]["encrypted_content"].startswith("ripieno1.")
    assert "Alice" not in body["output"][-1]["encrypted_content"]
    assert len({one["id"] for one in body["output"]}) == 3
    material = backend.asked[0].canisters[-1].content[0].text
    assert "Assistant: Hello Alice." in material
    assert "Be brief." not in material
    assert backend.asked[0].tools == ()


async def test_its_output_continues_over_http_and_on_a_socket(tmp_path: pathlib.Path) -> None:
    async with before(tmp_path, CHAT, speak) as (front, backend), front.plain() as client:
        output = (await compact(client, HISTORY))["output"]
        given = [*output, {"type": "message", "role": "user", "content": "Go on."}]
        assert (await post(client, given)).json()["status"] == "completed"
        async with opening(front) as socket:
            assert text_of(await complete(socket, given, tools=[])) == "Fine."
    for asked in backend.asked[1:]:
        said = [one.content[0].text for one in asked.canisters]
        assert said == ["My name is Alice.", "I tune an oboe.", f"{SUMMARY}Alice tunes an oboe.", "Go on."]


async def test_a_compaction_is_compacted_again(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (client, backend):
        output = (await compact(client, HISTORY))["output"]
        again = (await compact(client, output))["output"]
    assert [one["type"] for one in again] == ["message", "message", "compaction"]
    assert "Alice tunes an oboe." in backend.asked[1].canisters[-1].content[0].text


async def test_calls_without_a_result_get_it_later(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (client, backend):
        output = (await compact(client, [*HISTORY, CALL], tools=[TOOL]))["output"]
        result = {"type": "function_call_output", "call_id": "call_1", "output": "It is tuned."}
        response = await post(client, [*output, result], tools=[TOOL])
    assert response.status_code == 200, response.text
    call, told = backend.asked[1].canisters[-2:]
    assert isinstance(call, InvocationCanister)
    assert isinstance(told, ResultCanister)
    assert (call.name, call.arguments, told.text) == ("tune", {"at": 442}, "It is tuned.")


async def test_old_messages_are_only_in_the_summary(tmp_path: pathlib.Path) -> None:
    given = [{"type": "message", "role": "user", "content": letter * 40_000} for letter in "ab"]
    async with opened(tmp_path) as (client, _):
        output = (await compact(client, given))["output"]
    assert [one["content"][0]["text"][0] for one in output[:-1]] == ["b"]


async def test_an_item_of_another_caller_is_refused(tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path, keys=KEYS) as (client, backend):
        mine, theirs = ({"authorization": f"Bearer {name}"} for name in KEYS)
        output = (await compact(client, HISTORY, headers=mine))["output"]
        assert (await post(client, output, mine)).status_code == 200
        asked = len(backend.asked)
        refused = await post(client, output, theirs)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_compaction")
        assert len(backend.asked) == asked


@pytest.mark.parametrize("text", ["", "gAAAAABpM0Yj-...=", "ripieno1.", "ripieno1.é", None, 7])
async def test_an_item_of_another_server_is_refused(text: object, tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (client, backend):
        refused = await post(client, [{"type": "compaction", "encrypted_content": text}])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_compaction")
    assert backend.asked == []


@pytest.mark.parametrize("body", [{}, {"model": 7}, {"input": "Hi."}])
async def test_a_model_is_needed(body: dict[str, Any], tmp_path: pathlib.Path) -> None:
    async with opened(tmp_path) as (client, _):
        response = await client.post("/v1/responses/compact", json={"input": "Hi.", **body})
    assert response.status_code == 400
    assert json.loads(response.text)["error"]["message"]


async def test_a_model_that_writes_nothing(tmp_path: pathlib.Path) -> None:
    silent = says(CHAT, [AssistantCanister.of("")])
    async with before(tmp_path, CHAT, lambda _: silent) as (front, _), front.plain() as client:
        response = await client.post("/v1/responses/compact", json={"model": "small", "input": HISTORY})
    assert response.status_code >= 400


def test_each_changed_byte_is_refused() -> None:
    sealer = Sealer(b"a secret of the operator")
    text = sealer.seal(Compaction(summary="Short."), "ada")
    assert sealer.open(text, "ada") == Compaction(summary="Short.")
    for place in range(len(text)):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(Unsealed):
            sealer.open(changed, "ada")
    for other, caller in ((sealer, "ben"), (sealer, ""), (Sealer(b"another secret of it"), "ada")):
        with pytest.raises(Unsealed):
            other.open(text, caller)
    assert sealer.seal(Compaction(summary="Short."), "ada") != text


def test_a_compaction_that_is_too_long() -> None:
    with pytest.raises(InputError, match="too long"):
        Sealer(b"a secret of the operator").seal(Compaction(summary="a" * 8_000_000), "ada")
