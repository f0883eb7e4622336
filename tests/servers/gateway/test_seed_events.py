"""Answers of a gateway with ``events = "seed"``, and what it reads of a client that sends them back."""

import json
import pathlib
from typing import Any

from ripieno.canisters import AssistantCanister, InvocationCanister, ResultCanister, UserCanister
from ripieno.testing import call, turn
from tests.servers.gateway.test_clients import SCORE, SHELL, files
from tests.support.gateways import KINDS, before


async def test_a_mixed_turn_requires_an_action_with_the_events_of_the_seed(tmp_path: pathlib.Path) -> None:
    files(tmp_path)
    setting = before(tmp_path, KINDS["openai-chat"], SCORE, ensembles=("io",), events="seed")
    async with setting as (front, _), front.openai() as client:
        whole = await client.responses.with_raw_response.create(model="any", input="Go.", tools=[SHELL])
        streamed = await client.responses.create(model="any", input="Go.", tools=[SHELL], stream=True)
        ended = [event.to_dict() async for event in streamed][-1]
    for response in (json.loads(whole.content), ended["response"]):
        assert response["status"] == "requires_action"
        assert [one["type"] for one in response["output"]][:2] == ["message", "function_call"]


async def test_with_the_events_of_the_seed_an_answer_follows_the_results_on_which_it_is_based(
    tmp_path: pathlib.Path,
) -> None:
    files(tmp_path)
    score = [
        turn(calls=[call("read_file", "a", path="a.txt"), call("read_file", "none", path="none.txt")]),
        turn("{a.line:1}."),
    ]
    async with before(tmp_path, KINDS["openai-chat"], score, ensembles=("io",), events="seed") as (front, backend):
        said: list[Any] = [{"role": "user", "content": "Go."}]
        async with front.plain() as plain:
            body = {"model": "any", "input": said}
            output = (await plain.post("/v1/responses", json=body)).json()["output"]
            kinds_of = ["message", "function_call", "function_call", *["function_call_output"] * 2, "message"]
            assert [one["type"] for one in output] == kinds_of
            assert [one.get("is_error") for one in output[3:5]] == [None, True]
            # The output can be sent back as it is, and reaches the backend in its order.
            said += [*output, {"role": "user", "content": "Again?"}]
            again = await plain.post("/v1/responses", json={"model": "any", "input": said})
            assert again.status_code == 200
    sent = [type(one) for one in backend.asked[2].canisters if one != AssistantCanister()]
    calls = [InvocationCanister, InvocationCanister, ResultCanister, ResultCanister]
    assert sent == [UserCanister, *calls, AssistantCanister, UserCanister]
