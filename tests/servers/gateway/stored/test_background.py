"""Background responses: polled, streamed again from any event, cancelled, and never left in progress."""

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest
from starlette.requests import Request
from starlette.responses import Response

from ripieno.approvals import Approve, DeferredConfirmer
from ripieno.canisters.events import Event
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.models.protocol import Asked
from ripieno.servers.gateway.stored.background import BackgroundRuns
from ripieno.servers.gateway.stored.library import Library
from ripieno.storage.responses.store import LEASE
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url
from tests.servers.gateway.test_streams import Gated
from tests.support.loopback_servers import serving
from tests.support.openresponses_checker import StreamChecker, check_response
from tests.support.postgresql import NewPlace
from tests.support.stores import CHAT, KEYS, SECRET, Storing, storing

#: Hang bound of one step, in seconds.
HANG = 60


async def ended(client: openai.AsyncOpenAI, response: Any) -> Any:
    """The response at its end, by polling as clients do."""
    async with asyncio.timeout(HANG):
        while response.status in ("queued", "in_progress"):
            await asyncio.sleep(0.02)
            response = await client.responses.retrieve(response.id)
    return response


async def raw_events(gateway: Storing, path: str, body: Any = None) -> bytes:
    """The bytes of a stream, without comments."""
    headers = {"authorization": f"Bearer {KEYS['ada']}"}
    async with gateway.front.plain(headers=headers, timeout=HANG) as plain:
        if body is None:
            answer = await plain.get(path)
        else:
            answer = await plain.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return answer.content.replace(b": working\n\n", b"")


class Gate(Gated):
    """A backend that goes on when it is let. ``begun``: it was asked."""

    def __init__(self) -> None:
        super().__init__(CHAT)
        self.begun = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.begun.set()
        return await super().__call__(request)


@contextlib.asynccontextmanager
async def gated(folder: pathlib.Path, **settings: Any) -> AsyncGenerator[tuple[Storing, Gate], None]:
    """A gateway whose backend answers when it is let."""
    gate = Gate()
    async with serving(gate) as (url, _), storing(folder, url=base_url(url, CHAT.protocol), **settings) as gateway:
        yield gateway, gate


async def test_it_is_polled_until_its_end(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        begun = await client.responses.create(model="any", input="One.", background=True)
        assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
        response = await ended(client, begun)
        check_response(response.to_dict())
        assert (response.status, response.output_text) == ("completed", "I read One.")
        second = await client.responses.create(model="any", input="Two.", previous_response_id=response.id)
        assert second.output_text == "I read One. Two."
        # Nothing was streamed, so that no events are stored.
        assert gateway.rows()["response_events"] == 0
        with pytest.raises(openai.NotFoundError, match="not streamed from the start"):
            await client.responses.retrieve(response.id, stream=True)
        with pytest.raises(openai.BadRequestError, match="created with background = true"):
            await client.responses.retrieve(second.id, stream=True)
        with pytest.raises(openai.BadRequestError, match="created with background = true"):
            await client.responses.cancel(second.id)


async def test_a_stream_is_resumed_after_any_event(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        body = {"model": "any", "input": "One.", "background": True, "stream": True}
        whole = await raw_events(gateway, "/v1/responses", body)
        checker = StreamChecker()
        checker.write(whole)
        response = checker.end().response
        pieces = whole.split(b"\n\n")[:-1]
        numbers = [json.loads(one.partition(b"data: ")[2])["sequence_number"] for one in pieces[:-1]]
        assert numbers == list(range(len(pieces) - 1))
        path = f"/v1/responses/{response['id']}?stream=true"
        assert await raw_events(gateway, path) == whole
        for number in numbers:
            rest = b"".join(one + b"\n\n" for one in pieces[number + 1 :])
            assert await raw_events(gateway, f"{path}&starting_after={number}") == rest
        events = [one async for one in await client.responses.retrieve(response["id"], stream=True, starting_after=3)]
        assert [one.sequence_number for one in events] == numbers[4:]
        with pytest.raises(openai.BadRequestError, match="starting_after is a number"):
            await client.responses.retrieve(response["id"], stream=True, extra_query={"starting_after": "x"})
        gateway.clock.now += 600
        with pytest.raises(openai.NotFoundError, match="ended some time ago"):
            await client.responses.retrieve(response["id"], stream=True)
        assert (await client.responses.retrieve(response["id"])).status == "completed"


async def test_a_run_goes_on_without_its_client(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        stream = await client.responses.create(model="any", input="One.", background=True, stream=True)
        first = await anext(aiter(stream))
        await stream.close()
        assert first.type == "response.created"
        running = await client.responses.retrieve(first.response.id)
        assert running.status == "in_progress"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="any", input="Two.", previous_response_id=running.id)
        assert caught.value.code == "previous_response_not_completed"
        following = asyncio.create_task(raw_events(gateway, f"/v1/responses/{running.id}?stream=true"))
        gate.go.set()
        assert (await ended(client, running)).status == "completed"
        whole = await following
        assert whole.startswith(b"event: response.created\n")
        assert whole.endswith(b"data: [DONE]\n\n")
        assert await raw_events(gateway, f"/v1/responses/{running.id}?stream=true") == whole


@pytest.mark.parametrize("streamed", [False, True])
async def test_it_is_cancelled_once_and_for_all(tmp_path: pathlib.Path, *, streamed: bool) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        body = {"model": "any", "input": "One.", "background": True, "stream": streamed}
        if streamed:
            stream = await client.responses.create(**body)
            response = (await anext(aiter(stream))).response
        else:
            response = await client.responses.create(**body)
        await gate.begun.wait()
        for _ in range(3):
            cancelled = await client.responses.cancel(response.id)
            assert cancelled.status == "cancelled"
        assert (await client.responses.retrieve(response.id)).status == "cancelled"
        if streamed:
            whole = await raw_events(gateway, f"/v1/responses/{response.id}?stream=true")
            checker = StreamChecker()
            checker.write(whole)
            assert checker.end().response["error"]["code"] == "cancelled"
        with pytest.raises(openai.BadRequestError, match="has not ended, or has failed"):
            await client.responses.create(model="any", input="Two.", previous_response_id=response.id)


async def test_deleting_ends_the_run(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        stream = await client.responses.create(model="any", input="One.", background=True, stream=True)
        response = (await anext(aiter(stream))).response
        await gate.begun.wait()
        await client.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(response.id)
        assert gateway.rows() == dict.fromkeys(gateway.rows(), 0)


async def test_another_process_follows_and_cancels(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    place = new_place()
    async with gated(tmp_path, place=place) as (gateway, gate), gateway.client() as client:
        stream = await client.responses.create(model="any", input="One.", background=True, stream=True)
        response = (await anext(aiter(stream))).response
        await gate.begun.wait()
        library = Library(gateway.database, StoreDescriptor(), SECRET.encode(), gateway.clock)
        other = BackgroundRuns(library)
        following = asyncio.create_task(collected(other, response.id))
        await other.cancel("ada", response.id)
        row = await library.load("ada", response.id)
        assert row is not None
        assert row.status == "cancelled"
        async with asyncio.timeout(HANG):
            assert (await following).endswith(b"data: [DONE]\n\n")
        await other.close()


async def collected(runs: BackgroundRuns, identifier: str) -> bytes:
    """All events of a response."""
    return b"".join([piece async for piece in runs.follow("ada", identifier, -1)])


async def test_after_a_crash_it_has_failed(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        stream = await client.responses.create(model="any", input="One.", background=True, stream=True)
        events = [one async for one in stream]
        identifier = events[0].response.id
        # As the rows are when the process is killed in its middle.
        with gateway.database.using("written") as connection:
            connection.execute("UPDATE responses SET status = 'in_progress', holder = 'killed', until = ?", (0,))
            connection.execute("UPDATE responses SET until = ?", (gateway.clock.now + LEASE,))
        assert (await client.responses.retrieve(identifier)).id == identifier
        gateway.clock.now += LEASE
        failed = await client.responses.retrieve(identifier)
        assert failed.status == "failed"
        assert failed.error is not None
        assert "ended before it was complete" in failed.error.message
        whole = await raw_events(gateway, f"/v1/responses/{identifier}?stream=true")
        assert b"event: response.failed\n" in whole.split(b"\n\n")[-3]
        assert (await client.responses.cancel(identifier)).status == "failed"


async def test_the_end_of_the_server_is_the_reason(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        response = await client.responses.create(model="any", input="One.", background=True)
        await gate.begun.wait()
    async with storing(tmp_path) as gateway, gateway.client() as client:
        failed = await client.responses.retrieve(response.id)
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error.code == "server_ending"


async def test_errors_before_and_during_the_run(tmp_path: pathlib.Path) -> None:
    def fail(asked: Asked) -> list[Event]:
        raise RuntimeError("no")

    async with storing(tmp_path, fail, map_only="small") as gateway, gateway.client() as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.responses.create(model="other", input="One.", background=True)
        assert caught.value.code == "model_not_found"
        assert gateway.rows()["responses"] == 0
        failed = await ended(client, await client.responses.create(model="small", input="One.", background=True))
        assert (failed.status, failed.error is not None) == ("failed", True)


async def test_runs_are_as_many_as_requests_may_be(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path, concurrency=2) as (_gateway, gate), _gateway.client() as client:
        first = await client.responses.create(model="any", input="One.", background=True)
        await gate.begun.wait()
        with pytest.raises(openai.InternalServerError) as caught:
            await client.responses.create(model="any", input="Two.", background=True)
        assert caught.value.code == "server_overloaded"
        gate.go.set()
        assert (await ended(client, first)).status == "completed"
        assert (await client.responses.create(model="any", input="Two.", background=True)).status == "in_progress"


async def test_a_background_run_may_wait_for_a_person(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    """Also: a database beyond a network is never used by the thread of the loop."""
    play = [turn("I write.", calls=[call("write_file", "w", path="a.txt", content="one")]), turn("Done.", expect=["w"])]
    settings = {"ensembles": ("io",), "absent": "defer", "confirmer": DeferredConfirmer()}
    async with storing(tmp_path, play, place=new_place(), **settings) as gateway, gateway.client() as client:
        with gateway.waits() as waits:
            begun = await client.responses.create(model="any", input="Go.", background=True)
            waiting = await ended(client, begun)
            assert waiting.status == "incomplete"
            assert waiting.incomplete_details is not None
            assert str(waiting.incomplete_details.reason) == "waiting_for_approval"
        store = PausedStore(gateway.database)
        (paused,) = store.all()
        answers = {one.invocation: Approve() for one in paused.unanswered}
        store.answer(paused.identifier, answers, owner=paused.owner)
        with gateway.waits() as more:
            done = await ended(
                client,
                await client.responses.create(model="any", input=[], previous_response_id=waiting.id, background=True),
            )
        assert [one.type for one in done.output] == ["function_call_output", "message"]
        assert (tmp_path / "workspace" / "a.txt").read_text() == "one"
        assert waits + more == []


async def test_it_keeps_its_part_of_the_memory_until_its_end(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path, memory_bytes=12 * 60_000) as (gateway, gate), gateway.client() as client:
        asking: Any = {"model": "any", "input": "a" * 40_000, "background": True}
        first = await client.responses.create(**asking)
        for background in (True, False):
            with pytest.raises(openai.InternalServerError, match="too little memory"):
                await client.responses.create(**{**asking, "background": background})
        gate.go.set()
        assert (await ended(client, first)).status == "completed"
        second = await client.responses.create(**asking)
        await client.responses.delete(second.id)
        assert (await ended(client, await client.responses.create(**asking))).status == "completed"
