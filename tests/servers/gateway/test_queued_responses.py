"""Background responses in the queue: none stays queued when its gateway, its database or its turn is lost."""

import asyncio
import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any

import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from ripieno.assembly import Assembly, assemble
from ripieno.servers.gateway import queued_responses
from ripieno.servers.gateway.application import create_application
from ripieno.servers.gateway.stored.library import Library
from ripieno.servers.http.connections import Bounds
from ripieno.servers.http.limits import MemoryBudget
from ripieno.servers.http.server import serve
from ripieno.servers.worker import worker as worker_module
from ripieno.servers.worker.worker import Worker
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import Dispatched, Dispatcher
from ripieno.storage.places import Places
from ripieno.storage.responses.store import ResponseStore
from tests.support.gateways import Backend, Front, speaking
from tests.support.interruptions import way_to
from tests.support.postgresql import address_with_queue
from tests.support.stores import CHAT, SECRET, count_messages

#: Seconds after which a test counts as hung.
HANG = 60
#: The caller of requests without a key.
CALLER = ""
BODY: dict[str, Any] = {"model": "any", "input": "One.", "background": True}


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """Gateways and workers over one database, and their backend."""

    folder: pathlib.Path
    place: pathlib.Path | str
    backend: Backend

    def assembly(self, place: pathlib.Path | str | None = None) -> Assembly:
        """The configuration that gateways and workers have; the database may be reached on another way."""
        journal, used = dict[str, Any](enabled=True), place or self.place
        if isinstance(used, str):
            journal["url"] = used
        workspace = self.folder / "workspace"
        workspace.mkdir(exist_ok=True)
        return assemble(
            {
                "providers": {"back": {**CHAT.provider, "base_url": self.backend.url, "api_key": "k", "retries": 0}},
                "gateway": {"map": {"*": "back/small"}, "secret": SECRET, "store": {}},
                "durable": {"servers": True},
                "journal": journal,
            },
            workspace=workspace,
            places=Places(configuration=self.folder / "configuration", state=self.folder / "state"),
            layers="user",
        )

    @contextlib.asynccontextmanager
    async def gateway(self, below: str = "") -> AsyncGenerator[tuple[openai.AsyncOpenAI, Dispatcher, Library], None]:
        """A client of a gateway, the queue, and the store. The block may not last longer than a hung test.

        ``below`` is the path of the gateway in another application.
        """
        async with asyncio.timeout(HANG), self.assembly() as assembly:
            store = assembly.configuration.gateway.store
            assert store is not None
            library = Library.of(assembly, store, SECRET.encode())
            application: Any = create_application(assembly)
            if below:
                application = Starlette(routes=[Mount(below, application)])
            bounds = Bounds(message_bytes=2**20)
            async with serve(application, bounds=bounds) as url, Front(url + below, assembly).openai() as client:
                yield client, assembly.dispatcher, library
            library.close()

    @contextlib.asynccontextmanager
    async def worker(
        self, report: Callable[[str], None] = lambda _: None, *, way: str | None = None
    ) -> AsyncGenerator[None, None]:
        """A worker, which may reach the database, but not the queue, on another way."""
        async with self.assembly() as direct, self.assembly(way) as assembly:
            worker = Worker(assembly, direct.dispatcher, hosts=[f"host-{uuid.uuid4().hex[:8]}"], report=report)
            task = asyncio.create_task(worker.run())
            try:
                yield
            finally:
                worker.stop()
                await task


@pytest.fixture
async def site(place_with_queue: pathlib.Path | str, tmp_path: pathlib.Path) -> AsyncGenerator[Site, None]:
    async with speaking(CHAT, count_messages) as backend:
        yield Site(tmp_path, place_with_queue, backend)


async def ended(client: openai.AsyncOpenAI, identifier: str) -> Any:
    """The response at its end, by polling as clients do."""
    response = await client.responses.retrieve(identifier)
    while response.status in ("queued", "in_progress"):
        await asyncio.sleep(0.02)
        response = await client.responses.retrieve(identifier)
    return response


async def over(dispatcher: Dispatcher, identifier: str) -> Dispatched:
    """The end of a submission."""
    while not (found := await asyncio.to_thread(dispatcher.find, identifier)).over:  # noqa: ASYNC110  in a database
        await asyncio.sleep(0.02)
    return found


async def test_the_database_goes_away_before_a_worker_takes_it(postgresql_server: str, tmp_path: pathlib.Path) -> None:
    failed = asyncio.Event()
    async with speaking(CHAT, count_messages) as backend:
        with way_to(postgresql_server) as way, pytest.MonkeyPatch.context() as patch:
            place = address_with_queue(postgresql_server)
            name = place.partition("?")[0].rpartition("/")[2]
            site = Site(tmp_path, place, backend)
            load = Library.load

            async def noted(library: Library, *given: Any) -> Any:
                try:
                    return await load(library, *given)
                except Exception:
                    failed.set()
                    raise

            patch.setattr(Library, "load", noted)
            there = f"{way.address.rpartition('/')[0]}/{name}"
            async with site.gateway() as (client, dispatcher, _), site.worker(way=there):
                # It takes responses now, and has nothing more to read of this one.
                first = await client.responses.create(**BODY)
                assert (await over(dispatcher, first.id)).finish == "stop"
                failed.clear()
                way.cut()
                response = await client.responses.create(**BODY)
                assert response.status == "queued"
                await failed.wait()
                way.restore()
                assert (await ended(client, response.id)).output_text == "I read One."
                assert (await over(dispatcher, response.id)).finish == "stop"


async def test_the_database_goes_away_as_a_worker_takes_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next statement finds it again."""
    take, failed = ResponseStore.take, list[str]()

    def fail_once(store: ResponseStore, connection: Any, caller: str, identifier: str, holder: str) -> bool:
        if not failed:
            failed.append(identifier)
            raise Disconnected("The journal cannot be written.")
        return take(store, connection, caller, identifier, holder)

    monkeypatch.setattr(ResponseStore, "take", fail_once)
    async with site.gateway() as (client, dispatcher, _), site.worker():
        conversation = await client.conversations.create()
        response = await client.responses.create(**BODY, conversation=conversation.id)
        assert (await ended(client, response.id)).output_text == "I read One."
        assert (await over(dispatcher, response.id)).finish == "stop"
        following = await client.responses.create(model="any", input="Two.", conversation=conversation.id)
        assert following.output_text == "I read One. Two."
    assert failed == [response.id]


async def test_cancelled_in_the_queue_its_client_reads_so(site: Site) -> None:
    async with site.gateway() as (client, dispatcher, _):
        conversation = await client.conversations.create()
        response = await client.responses.create(**BODY, conversation=conversation.id)
        # As an operator does.
        await asyncio.to_thread(dispatcher.cancel, response.id)
        async with site.worker():
            assert (await ended(client, response.id)).status == "cancelled"
        assert (await over(dispatcher, response.id)).state == "cancelled"
        assert site.backend.asked == []
        following = await client.responses.create(model="any", input="Two.", conversation=conversation.id)
        assert following.output_text == "I read Two."


async def test_one_that_its_gateway_could_not_submit_fails(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_CLEANING", 0.0)
    monkeypatch.setattr(queued_responses, "_SUBMITTED", 0.0)
    reported: asyncio.Queue[str] = asyncio.Queue()
    async with site.gateway() as (client, dispatcher, library):
        conversation = await client.conversations.create()
        # The first of the two writes of a gateway that is killed after it.
        native = {**BODY, "conversation": conversation.id}
        with MemoryBudget(1_000_000).reserve() as reservation:
            _, request = await library.read(native, CALLER, reservation)
        assert request is not None
        created = {"id": request.identifier, "object": "response", "status": "queued", "output": []}
        await library.run(lambda: library.queue(request, created, route="/v1/responses", streamed=False))
        submitted = await client.responses.create(**BODY)
        with pytest.raises(openai.BadRequestError, match="in progress"):
            await client.responses.create(**native)
        async with site.worker(reported.put_nowait):
            assert (await ended(client, submitted.id)).status == "completed"
            assert request.identifier in await reported.get()
            assert (await over(dispatcher, submitted.id)).finish == "stop"
        row = await library.load(CALLER, request.identifier)
        assert row is not None
        assert (row.status, row.body["response"]["error"]["code"]) == ("failed", "server_error")
        following = await client.responses.create(model="any", input="Two.", conversation=conversation.id)
        assert following.output_text == "I read Two."
    assert reported.empty()


async def test_a_gateway_below_another_application_has_workers(site: Site) -> None:
    async with site.gateway("/ai") as (client, _, _), site.worker():
        response = await client.responses.create(**BODY)
        assert (await ended(client, response.id)).output_text == "I read One."


async def test_a_stream_names_its_response_before_a_worker_has_it(site: Site) -> None:
    async with site.gateway() as (client, _, _):
        async with client.responses.stream(**BODY) as stream:
            events = aiter(stream)
            first = await anext(events)
            assert (first.type, first.sequence_number) == ("response.created", 0)
            assert (first.response.status, first.response.output) == ("queued", [])
            assert (await client.responses.retrieve(first.response.id)).status == "queued"
            assert (await client.responses.cancel(first.response.id)).status == "cancelled"
            rest = [(one.type, one.sequence_number) async for one in events]
            assert rest == [("response.failed", 1)]
        async with client.responses.stream(**BODY) as stream:
            events = aiter(stream)
            first = await anext(events)
            async with site.worker():
                rest = [one.sequence_number async for one in events]
        assert rest == [*range(1, len(rest) + 1)]
        again = [one async for one in await client.responses.retrieve(first.response.id, stream=True)]
        assert [one.sequence_number for one in again] == [0, *rest]
        assert again[0] == first
