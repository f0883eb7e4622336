"""What the log and the metrics have of stored responses: each request once, a background run with its request."""

import json
import pathlib
from typing import Any

import openai
import pytest

from ripieno.cli.common.observers import observed
from tests.servers.gateway.stored.test_background import ended, gated
from tests.servers.gateway.test_metrics import (
    ACTIVE,
    DEPARTURES,
    FIRST,
    REFUSALS,
    REQUESTS,
    TOKENS,
    USAGE,
    Told,
    speaks,
)
from tests.support.stores import KEYS, Storing, storing

RESPONSES = "openai-responses"


async def scraped(gateway: Storing) -> Told:
    async with gateway.front.plain() as client:
        answer = await client.get("/metrics", headers={"authorization": f"Bearer {KEYS['ada']}"})
    return Told(answer.text)


def lines(text: str) -> list[tuple[Any, ...]]:
    told = (json.loads(line) for line in text.splitlines())
    return [(one["route"] or one["model"], one["status"], one["caller"], one["reason"]) for one in told]


async def test_each_request_is_logged_and_counted(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        with observed("json"):
            conversation = await client.conversations.create()
            response = await client.responses.create(model="any", input="One.", conversation=conversation.id)
            await client.responses.retrieve(response.id)
            await client.responses.delete(response.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(response.id)
        told = await scraped(gateway)
    text = capsys.readouterr().err
    assert lines(text) == [
        ("POST /v1/conversations", 200, "ada", ""),
        ("back/small", 200, "ada", ""),
        ("GET /v1/responses/{identifier}", 200, "ada", ""),
        ("DELETE /v1/responses/{identifier}", 200, "ada", ""),
        ("GET /v1/responses/{identifier}", 404, "ada", "response_not_found"),
    ]
    assert "openai-responses GET /v1/responses/{identifier}: 404 (response_not_found) in " in text
    assert response.id not in text
    assert told.one(REQUESTS, ripieno_wire=RESPONSES) == 5
    assert told.one(REQUESTS, ripieno_wire=RESPONSES, http_response_status_code="404") == 1
    assert told.one(REFUSALS) == 1


async def test_a_background_run_is_no_second_request_and_its_cancellation_no_departure(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        with observed("json"):
            first = await client.responses.create(model="any", input="One.", background=True)
            await gate.begun.wait()
            await client.responses.cancel(first.id)
            gate.go.set()
            second = await client.responses.create(model="any", input="Two.", background=True)
            assert (await ended(client, second)).status == "completed"
        told = await scraped(gateway)
    found = [one for one in lines(capsys.readouterr().err) if not one[0].startswith("GET")]
    assert found == [
        ("back/small", 200, "ada", ""),
        ("back/small", 499, "ada", "ended early"),
        ("POST /v1/responses/{identifier}/cancel", 200, "ada", ""),
        ("back/small", 200, "ada", ""),
        ("back/small", 200, "ada", ""),
    ]
    assert told.one(REQUESTS, gen_ai_provider_name="back", gen_ai_request_model="small") == 2
    assert told.one(DEPARTURES) == 0
    assert told.one(ACTIVE) == 0
    assert told.one(f"{FIRST}_count") == 0


async def test_the_tokens_of_a_background_run_are_counted_once(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, speaks) as gateway, gateway.client() as client:
        await ended(client, await client.responses.create(model="any", input="One.", background=True))
        told = await scraped(gateway)
    assert told.values(TOKENS, "gen_ai_request_model", "gen_ai_token_type") == {
        ("small", "input"): USAGE.input_tokens,
        ("small", "output"): USAGE.output_tokens,
    }
