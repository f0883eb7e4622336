"""Limits of a request beside its size: what is refused, with which setting, and that other requests go on."""

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import random
import threading
from typing import Any

import pytest
from benchmarks.request_shapes import SHAPES, WIRES
from hypothesis import given
from hypothesis import strategies as st

from ripieno.jsonvalues import encode
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import application
from ripieno.servers.http.limits import MemoryBudget, Refused, RequestLimits
from ripieno.testing.scores.turns import Turn
from tests.counts import count
from tests.support.gateways import KINDS, before
from tests.support.json_strategies import values

ANSWER = [Turn(text="Fine.")]
#: As short texts of the wires: one more message, part, tool or list than allowed.
LIMITS = {"messages": 8, "parts": 12, "tools": 4, "containers": 60}
wires = pytest.mark.parametrize("wire", list(WIRES))


def request(wire: str, *, messages: int = 1, parts: int = 1, tools: int = 0, lists: int = 0) -> bytes:
    form = WIRES[wire]
    part = form.part % '"a"'
    items = [form.message % f"[{','.join([part] * parts)}]"] * messages
    schema = encode({"type": "object", "properties": {"a": {"enum": [[]] * lists or ["a"]}}}).decode()
    declared = [form.tool % (number, schema) for number in range(max(tools, int(lists > 0)))]
    more = f',"tools":{form.tools % ",".join(declared)}' if declared else ""
    return (form.request % (",".join(items), more)).encode()


@wires
@pytest.mark.parametrize(
    ("shape", "refused"),
    [
        ({"messages": 8}, None),
        ({"messages": 9}, "messages"),
        ({"parts": 12}, None),
        ({"messages": 2, "parts": 7}, "parts"),
        ({"tools": 4}, None),
        ({"tools": 5}, "tools"),
        ({"lists": 60}, "containers"),
    ],
)
async def test_what_is_more_than_allowed_is_refused_by_the_name_of_its_setting(
    wire: str, shape: dict[str, int], refused: str | None, tmp_path: pathlib.Path
) -> None:
    async with before(tmp_path, KINDS["openai-chat"], ANSWER, **LIMITS) as (front, _), front.plain() as client:
        headers = {"content-type": "application/json"}
        response = await client.post(WIRES[wire].path, content=request(wire, **shape), headers=headers)
        if refused is None:
            assert response.status_code == 200, response.text
        else:
            assert response.status_code == 413
            assert f"({refused} under [gateway])" in response.json()["error"]["message"]


@given(values, st.integers(1, 30))
def test_objects_and_lists_are_counted_outside_of_texts_only(value: Any, most: int) -> None:
    body = json.dumps([value, '{["\\"[{'])
    limits = RequestLimits(messages=1, parts=1, tools=1, containers=most)
    for text in (body.encode(), encode(json.loads(body))):
        real = _containers(json.loads(body))
        with pytest.raises(Refused) if real > most else contextlib.nullcontext():
            limits.check_body(text)


def _containers(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_containers, value.values()))
    return 1 + sum(map(_containers, value)) if isinstance(value, list) else 0


async def test_a_long_request_is_read_while_others_are_answered(tmp_path: pathlib.Path) -> None:
    kind = KINDS["openai-chat"]
    reading, go_on = threading.Event(), threading.Event()

    def parse(native: Any) -> Asked:
        reading.set()
        assert go_on.wait(30)
        return kind.protocol.parse(native)

    slow = dataclasses.replace(kind.protocol, parse=parse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "protocols_of", lambda _: [slow])
        async with before(tmp_path, kind, ANSWER) as (front, _), front.plain() as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "a" * 100_000}]}
            asked = asyncio.create_task(client.post("/v1/chat/completions", json=body))
            await asyncio.to_thread(reading.wait, 30)
            assert (await client.get("/healthz")).status_code == 200
            assert not asked.done()
            go_on.set()
            assert (await asked).status_code == 200


async def test_requests_share_a_budget_of_memory(tmp_path: pathlib.Path) -> None:
    """One that waits for its model holds its part; the next is told to come again, and may when the first has ended."""
    began, go_on = asyncio.Event(), asyncio.Event()
    kind = KINDS["openai-chat"]
    body = {"model": "m", "messages": [{"role": "user", "content": "a" * 50_000}]}
    async with before(tmp_path, kind, ANSWER, memory_bytes=2**20) as (front, _), front.plain() as client:
        with pytest.MonkeyPatch.context() as patch:
            respond = application.Gateway.respond

            async def holding(*arguments: Any) -> Any:
                began.set()
                await go_on.wait()
                async for batch in respond(*arguments):
                    yield batch

            patch.setattr(application.Gateway, "respond", holding)
            first = asyncio.create_task(client.post("/v1/chat/completions", json=body))
            await began.wait()
            second = await client.post("/v1/chat/completions", json=body)
            assert (second.status_code, second.headers["retry-after"]) == (503, "1")
            assert "too little memory" in second.json()["error"]["message"]
            go_on.set()
            assert (await first).status_code == 200
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


@given(st.lists(st.integers(0, 300), max_size=20))
def test_a_reservation_returns_what_it_took(sizes: list[int]) -> None:
    budget = MemoryBudget(6000)
    for _ in range(3):
        reservation = budget.reserve()
        with pytest.raises(Refused) if sum(sizes) * 12 > 6000 else contextlib.nullcontext():
            for size in sizes:
                reservation.add(size)
        reservation.release()
    budget.take(6000)


CASES = [(wire, shape) for wire in WIRES for shape in SHAPES]


@pytest.mark.parametrize(("wire", "shape"), random.Random(15).sample(CASES, count(len(CASES))))
async def test_no_shape_of_a_request_fails_the_gateway(wire: str, shape: str, tmp_path: pathlib.Path) -> None:
    form = WIRES[wire]
    async with before(tmp_path, KINDS["openai-chat"], ANSWER) as (front, _), front.plain(timeout=120) as client:
        headers = {"content-type": "application/json"}
        response = await client.post(form.path, content=SHAPES[shape](form), headers=headers)
        assert response.status_code in (200, 400, 413), response.text[:300]
        assert (await client.get("/healthz")).status_code == 200
