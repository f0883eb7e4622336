"""Probabilities of tokens, from a backend of chat completions to the official client of a gateway."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.jsonvalues import encode
from tests.support.gateways import KINDS, fronting
from tests.support.loopback_servers import serving

GO: list[Any] = [{"role": "user", "content": "Go."}]
OTHER = {"token": "No", "logprob": -1.25, "bytes": [78, 111]}


def probable(token: str) -> dict[str, Any]:
    """The probability of a token, as chat completions have it, with that of another one."""
    return {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": [OTHER]}


def chunks_of(tokens: Sequence[str], *, streams: bool) -> bytes:
    """An answer of a server of chat completions, with probabilities in each chunk, or whole."""
    found = [probable(token) for token in tokens]
    if not streams:
        message = {"role": "assistant", "content": "".join(tokens)}
        lists: Any = {"content": found, "refusal": None}
        return encode({"choices": [{"index": 0, "message": message, "logprobs": lists, "finish_reason": "stop"}]})
    choices: list[Any] = [
        {
            "index": 0,
            "delta": {"content": token},
            "logprobs": {"content": [one], "refusal": None},
            "finish_reason": None,
        }
        for token, one in zip(tokens, found, strict=True)
    ]
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    return b"".join(b"data: %s\n\n" % encode({"choices": [one]}) for one in choices) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("way", ["whole", "raw", "helper"])
@pytest.mark.parametrize("ensembles", [(), ("io",)], ids=["passed through", "with tools here"])
async def test_probabilities_of_tokens_reach_the_client(
    way: str, ensembles: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    async def answer(request: Request) -> Response:
        streams = bool(json.loads(await request.body()).get("stream"))
        kind = "text/event-stream" if streams else "application/json"
        return Response(chunks_of(["Ye", "s."], streams=streams), media_type=kind)

    wants: dict[str, Any] = {"model": "m", "messages": GO, "logprobs": True, "top_logprobs": 1}
    async with (
        serving(answer) as (url, asked),
        fronting(tmp_path, KINDS["openai-chat"], f"{url}/v1", ensembles=ensembles) as front,
        front.openai() as client,
    ):
        if way == "whole":
            found = (await client.chat.completions.create(**wants)).choices[0]
        elif way == "helper":
            async with client.chat.completions.stream(**wants) as stream:
                found = (await stream.get_final_completion()).choices[0]
        else:
            chunks = [chunk async for chunk in await client.chat.completions.create(**wants, stream=True)]
            (found,) = (chunk.choices[0] for chunk in chunks if chunk.choices[0].logprobs)
        assert found.logprobs is not None
        assert found.logprobs.model_dump()["content"] == [probable("Ye"), probable("s.")]
        body = json.loads(asked[0].body)
        assert (body["logprobs"], body["top_logprobs"]) == (True, 1)
        # Sent back by a client or kept in a run, they are no part of the conversation.
        if way != "raw":
            said = {"role": "assistant", "content": "Yes."}
            assert (found.message.role, found.message.content) == tuple(said.values())
            await client.chat.completions.create(model="m", messages=[*GO, found.message.model_dump(), *GO])
            assert json.loads(asked[-1].body)["messages"] == [*GO, said, *GO]
