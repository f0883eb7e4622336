"""Writes of background responses that fail, or whose acknowledgement is lost: nothing is lost, or held for ever."""

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

import openai
import pytest
from starlette.types import Receive, Send

from ripieno.approvals import Approve, DeferredConfirmer
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.exceptions import RipienoError
from ripieno.servers.gateway.stored import background, use
from ripieno.servers.gateway.stored.background import BackgroundRuns
from ripieno.servers.gateway.stored.library import Library
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.http.limits import MemoryBudget
from ripieno.storage.databases.contract import Connection, Disconnected
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import Journal
from ripieno.storage.records import cut_record
from ripieno.storage.responses.conversations import ConversationStore
from ripieno.storage.responses.rows import ConversationLocked, StoredConversation, StoredResponse
from ripieno.storage.responses.store import LEASE, ResponseStore
from ripieno.testing import call, turn
from tests.servers.gateway.stored.test_background import collected, ended
from tests.support.openresponses_checker import check_stream
from tests.support.postgresql import NewPlace
from tests.support.stores import KEYS, SECRET, Clock, storing

#: Seconds after which a test counts as hung.
HANG = 60
CONVERSATION = f"conv_{'0' * 32}"


class Unreliable:
    """A way to a real database on which the next changes fail: ``before`` they are made, or ``after`` that."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self.before = self.after = 0
        #: Released for each change that failed.
        self.failed = asyncio.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextlib.contextmanager
    def using(self, action: str) -> Iterator[Connection]:
        with self._database.using(action) as connection:
            # Each statement is a transaction.
            yield _Unreliable(connection, self) if action == "written" else connection

    @contextlib.contextmanager
    def writing(self, action: str) -> Iterator[Connection]:
        with self.changing(), self._database.writing(action) as connection:
            yield connection

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """One transaction."""
        if self.before:
            self.before -= 1
            raise self._lost()
        yield
        if self.after:
            self.after -= 1
            raise self._lost()

    def _lost(self) -> Disconnected:
        self._loop.call_soon_threadsafe(self.failed.release)
        return Disconnected("The server of the database went away.")


class _Unreliable:
    """A connection without transactions."""

    def __init__(self, connection: Connection, way: Unreliable) -> None:
        self._connection = connection
        self._way = way

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Any:
        with self._way.changing() if not query.startswith("SELECT") else contextlib.nullcontext():
            return self._connection.execute(query, parameters)


class Runs(BackgroundRuns):
    """Background runs whose leases a test renews."""

    def keep(self) -> None:
        """Does nothing."""


class Site:
    """Background runs of one process, in a database whose changes fail when a test says so."""

    def __init__(self, place: pathlib.Path | str) -> None:
        self.clock = Clock()
        self.database = Unreliable(database_at(place))
        self.journal = Journal(place)
        self.library = Library(self.database, StoreDescriptor(), SECRET.encode(), self.clock, self.journal)
        self.runs = Runs(self.library)

    async def request(self, conversation: str | None = None) -> StoredRequest:
        """A request for a background response."""
        native = {"input": "Go.", "background": True, "conversation": conversation}
        with MemoryBudget(1_000_000).reserve() as reservation:
            _, stored = await self.library.read(native, "ada", reservation)
        assert stored is not None
        return stored

    async def conversation(self) -> str:
        """A conversation without items."""
        one = StoredConversation(caller="ada", identifier=CONVERSATION, body={})
        await self.library.run(self.library.conversations.create, one, ())
        return CONVERSATION

    async def row(self, request: StoredRequest) -> StoredResponse:
        """The response of a request."""
        row = await self.library.load("ada", request.identifier)
        assert row is not None
        return row

    @property
    def running(self) -> list[asyncio.Task[Any]]:
        """The runs that are left."""
        return [task for task in asyncio.all_tasks() if task.get_name() == "ripieno background run"]

    async def idle(self) -> None:
        """Returns when no run is left."""
        for task in self.running:
            await asyncio.wait((task,))


@contextlib.asynccontextmanager
async def running(place: pathlib.Path | str) -> AsyncGenerator[Site, None]:
    """A process that waits for nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(use, "_BEAT", 0.01)
        patch.setattr(background, "_COLLECTED", 0.0)
        async with asyncio.timeout(HANG):
            made = Site(place)
            yield made
            await made.runs.close()
            made.journal.close()


def event(number: int, kind: str, **members: Any) -> bytes:
    """One event of a stream."""
    data = json.dumps({"type": kind, "sequence_number": number, **members})
    return f"event: {kind}\ndata: {data}\n\n".encode()


BEGUN = event(0, "response.created", response={"status": "in_progress", "output": []})
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
MIDDLE = event(1, "response.output_item.done", item=ITEM)
COMPLETED: Mapping[str, Any] = {"status": "completed", "output": [ITEM]}
END = event(2, "response.completed", response=COMPLETED) + b"data: [DONE]\n\n"


async def write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def test_events_whose_acknowledgement_is_lost_are_there_once(place: pathlib.Path | str) -> None:
    async with running(place) as site:

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            # The task that writes it has not begun.
            site.database.after = 1
            await site.database.failed.acquire()
            await write(send, MIDDLE)
            await write(send, END)

        request = await site.request()
        await site.runs.start(request, answer, streamed=True)
        assert await collected(site.runs, request.identifier) == BEGUN + MIDDLE + END
        assert (await site.row(request)).body["response"] == COMPLETED


@pytest.mark.parametrize("way", ["before", "after"])
async def test_an_end_that_fails_is_stored_later_and_once(place: pathlib.Path | str, way: str) -> None:
    async with running(place) as site:

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            await write(send, MIDDLE)
            # So that only the end is left to write.
            async with contextlib.aclosing(site.runs.follow("ada", request.identifier, -1)) as pieces:
                async for piece in pieces:
                    if piece == MIDDLE:
                        break
            setattr(site.database, way, 2)
            await write(send, END)

        conversation = await site.conversation()
        request = await site.request(conversation)
        await site.runs.start(request, answer, streamed=True)
        assert await collected(site.runs, request.identifier) == BEGUN + MIDDLE + END
        assert (await site.row(request)).body["response"] == COMPLETED
        await site.idle()
        assert site.library.holding == set()
        items = await site.library.run(site.library.conversations.items, "ada", conversation)
        assert [one.get("role") for one in items] == ["user", "assistant"]
        # It is free.
        assert (await site.request(conversation)).identifier


@pytest.mark.parametrize("way", ["before", "after"])
async def test_an_answer_that_cannot_be_kept_at_once_is_kept_later_and_once(
    place: pathlib.Path | str, way: str
) -> None:
    async with running(place) as site:
        conversation = await site.conversation()
        request = await site.request(conversation)
        setattr(site.database, way, 2)
        await site.library.keep(request, COMPLETED)
        assert (await site.row(request)).body["response"] == COMPLETED
        assert site.library.holding == set()
        items = await site.library.run(site.library.conversations.items, "ada", conversation)
        assert [one.get("role") for one in items] == ["user", "assistant"]
        assert (await site.request(conversation)).identifier


async def test_what_cannot_be_ended_is_not_renewed(place: pathlib.Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run of the process is."""
    async with running(place) as site:
        monkeypatch.setattr(use, "LEASE", 0.0)
        go = asyncio.Event()

        async def end_badly(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            site.database.before = 99
            await write(send, END)

        async def wait(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            await go.wait()
            await write(send, END)

        conversation = await site.conversation()
        bad, good = await site.request(conversation), await site.request()
        await site.runs.start(bad, end_badly, streamed=False)
        await site.idle()
        site.database.before = 0
        await site.runs.start(good, wait, streamed=False)
        for _ in range(2):
            site.clock.now += LEASE * 2 / 3
            await site.runs.renew()
        row = await site.row(bad)
        assert (row.status, row.body["response"]["error"]["code"]) == ("failed", "server_error")
        assert (await site.row(good)).status == "in_progress"
        assert (await site.request(conversation)).identifier
        go.set()
        await site.idle()
        assert (await site.row(good)).status == "completed"


async def test_what_another_process_has_ended_gains_nothing(
    place: pathlib.Path | str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(place) as site:

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            row = await site.row(request)
            failed = dataclasses.replace(row, status="failed")
            await site.library.run(site.library.responses.end, failed, row.holder)
            await write(send, MIDDLE)
            with pytest.raises(RipienoError, match="Another process has ended"):
                await write(send, END)

        conversation = await site.conversation()
        request = await site.request(conversation)
        await site.runs.start(request, answer, streamed=True)
        await site.idle()
        assert (await site.row(request)).status == "failed"
        assert MIDDLE not in await collected(site.runs, request.identifier)
        assert await site.library.run(site.library.conversations.items, "ada", conversation) == ()
        assert (await site.request(conversation)).identifier
        assert caplog.messages == []


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_run_that_is_lost_or_deleted_ends(place: pathlib.Path | str, *, deleted: bool) -> None:
    """Its client may have sent the request again."""
    async with running(place) as site:

        def record() -> None:
            site.journal.record([cut_record("ada", request.identifier, [{"text": "Some words."}])])

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            await asyncio.to_thread(record)
            begun.set()
            assert (await receive())["type"] == "http.disconnect"
            # The result of its last call.
            await asyncio.to_thread(record)

        begun, conversation = asyncio.Event(), await site.conversation()
        request = await site.request(conversation)
        await site.runs.start(request, answer, streamed=True)
        await begun.wait()
        await site.runs.renew()
        assert site.running
        row = await site.row(request)
        if deleted:
            await site.library.run(site.library.delete, row)
        else:
            site.clock.now += LEASE
            row = await site.row(request)
            assert (row.status, row.body["response"]["error"]["code"]) == ("failed", "server_error")
        await site.runs.renew()
        await site.idle()
        assert site.library.holding == set()
        assert (await site.request(conversation)).identifier
        bodies = [line.body for line in site.journal.lines(request.identifier, owner="ada") if line.stage == "cut"]
        assert len(bodies) == 2
        assert not any(bodies) if deleted else all(bodies)


async def test_a_slow_cleaning_holds_up_no_renewal(place: pathlib.Path | str) -> None:
    """What was deleted is removed from the files beside it."""
    async with running(place) as site:
        runs, renew = BackgroundRuns(site.library), site.library.responses.renew
        loop, renewed = asyncio.get_running_loop(), asyncio.Event()
        begun, go = threading.Event(), threading.Event()

        def clean() -> None:
            begun.set()
            assert go.wait(HANG)

        def note(*given: Any) -> Any:
            # Not before: the first renewal may come before the cleaning.
            if begun.is_set():
                loop.call_soon_threadsafe(renewed.set)
            return renew(*given)

        setattr(site.database, "clean", clean)  # noqa: B010
        setattr(site.library.responses, "renew", note)  # noqa: B010

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            await renewed.wait()
            await write(send, END)

        await site.library.run(site.library.delete, StoredResponse(caller="ada", identifier="a", body={}, status=""))
        request = await site.request()
        await runs.start(request, answer, streamed=False)
        await site.idle()
        go.set()
        assert (await site.row(request)).status == "completed"
        await runs.close()


async def test_a_run_that_has_not_begun_is_not_lost(place: pathlib.Path | str) -> None:
    async with running(place) as site:
        go = asyncio.Event()

        async def answer(receive: Receive, send: Send) -> None:
            await go.wait()
            await write(send, BEGUN)
            await write(send, END)

        request = await site.request()
        start = asyncio.create_task(site.runs.start(request, answer, streamed=False))
        while not site.running:  # noqa: ASYNC110  until the task has begun
            await asyncio.sleep(0)
        await site.runs.renew()
        go.set()
        await start
        await site.idle()
        assert (await site.row(request)).status == "completed"


@pytest.mark.parametrize("deleted", [False, True])
async def test_an_answer_that_has_lost_its_conversation_fails(
    place: pathlib.Path | str, caplog: pytest.LogCaptureFixture, *, deleted: bool
) -> None:
    async with running(place) as site:

        async def take(conversation: str) -> None:
            if deleted:
                await site.library.run(site.library.conversations.delete, "ada", conversation)
            else:
                site.clock.now += LEASE
                await site.library.keep(await site.request(conversation), COMPLETED)

        async def answer(receive: Receive, send: Send) -> None:
            await write(send, BEGUN)
            await take(conversation)
            # So that its line in the log says why.
            with pytest.raises(ConversationLocked, match="not in it"):
                await write(send, END)

        conversation = await site.conversation()
        request = await site.request(conversation)
        await site.runs.start(request, answer, streamed=True)
        await site.idle()
        row = await site.row(request)
        assert (row.status, row.body["response"]["error"]["code"]) == ("failed", "conversation_locked")
        events = await collected(site.runs, request.identifier)
        assert events.startswith(BEGUN)
        assert b"response.completed" not in events
        assert b'"code":"conversation_locked"' in events
        # The client waits for it.
        if deleted:
            await site.conversation()
        request = await site.request(conversation)
        await take(conversation)
        with pytest.raises(ConversationLocked, match="not in it"):
            await site.library.keep(request, COMPLETED)
        assert await site.library.load("ada", request.identifier) is None
        items = await site.library.run(site.library.conversations.items, "ada", conversation)
        assert len(items) == (0 if deleted else 3)
        await site.library.release(request)
        assert site.library.holding == set()
        assert caplog.messages == [
            f"The hold of a conversation was lost, so that {name} fails."
            for name in (row.identifier, request.identifier)
        ]


def failing(monkeypatch: pytest.MonkeyPatch, kind: type[Any], name: str, when: Callable[..., bool]) -> list[Any]:
    """Lets a method of a store fail as if its database were away. Returns the arguments of each failure."""
    found: list[Any] = []
    original = getattr(kind, name)

    def method(*given: Any, **named: Any) -> Any:
        if when(*given):
            found.append(given[1:])
            raise Disconnected("The server of the database went away.")
        return original(*given, **named)

    monkeypatch.setattr(kind, name, method)
    return found


async def read(client: openai.AsyncOpenAI, **asking: Any) -> None:
    """Reads a response, or all events of one."""
    answer: Any = await client.responses.create(**asking)
    if asking["stream"]:
        async for _ in answer:
            pass


async def test_a_hold_that_cannot_be_ended_leaves_the_answer_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, new_place: NewPlace
) -> None:
    monkeypatch.setattr(use, "LEASE", 0.0)
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        conversation = await client.conversations.create()
        failing(monkeypatch, Library, "_keep", lambda *_: True)
        failing(monkeypatch, ConversationStore, "unlock", lambda *_: True)
        for streamed in (False, True):
            with pytest.raises(openai.APIError) as caught:
                await read(client, model="any", input="One.", conversation=conversation.id, stream=streamed)
            assert caught.value.code == "store_unusable"
            gateway.clock.now += LEASE
        monkeypatch.undo()
        done = await client.responses.create(model="any", input="Two.", conversation=conversation.id)
        assert done.status == "completed"


async def test_a_deletion_that_fails_can_be_repeated(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, new_place: NewPlace
) -> None:
    play = [turn("I read.", calls=[call("read_file", "r", path="a.txt")]), turn("Done.", expect=["r"])]
    settings: Any = {"ensembles": ("io",), "recorded": True}
    async with storing(tmp_path, play, place=new_place(), **settings) as gateway, gateway.client() as client:
        (tmp_path / "workspace" / "a.txt").write_text("forty-two")
        response = await client.responses.create(model="any", input="Read a.txt.")
        journal: Any = gateway.front.assembly.execution.reporter.recorder
        kinds: tuple[type[Any], ...] = (PausedStore, Journal, ResponseStore)
        for kind, name in zip(kinds, ("forget", "delete", "delete"), strict=True):
            with monkeypatch.context() as patch:
                failing(patch, kind, name, lambda *_: True)
                with pytest.raises(openai.InternalServerError) as caught:
                    await client.responses.delete(response.id)
                assert caught.value.code == "store_unusable"
            assert (await client.responses.retrieve(response.id)).id == response.id
        await client.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(response.id)
        lines = list(journal.lines(response.id))
        assert [line.stage for line in lines].count("deleted") == 1
        assert all(line.record is None for line in lines if line.stage != "deleted")


@pytest.mark.parametrize("way", ["whole", "streamed", "background"])
async def test_the_result_of_an_approved_call_stays_until_its_response_is_stored(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, new_place: NewPlace, way: str
) -> None:
    monkeypatch.setattr(use, "LEASE", 0.0)
    play = [turn("I write.", calls=[call("write_file", "w", path="a.txt", content="one")]), turn("Done.", expect=["w"])]
    settings: dict[str, Any] = {"ensembles": ("io",), "absent": "defer", "confirmer": DeferredConfirmer()}
    async with storing(tmp_path, play, place=new_place(), **settings) as gateway, gateway.client() as client:
        waiting = await client.responses.create(model="any", input="Go.")
        assert waiting.status == "incomplete"
        store = PausedStore(gateway.database)
        (paused,) = store.all()
        answers = {one.invocation: Approve() for one in paused.unanswered}
        store.answer(paused.identifier, answers, owner=paused.owner)
        asking: dict[str, Any] = {"model": "any", "input": [], "previous_response_id": waiting.id}
        with monkeypatch.context() as patch:
            if way == "background":
                failed = failing(patch, ResponseStore, "end", lambda _, row, *__: row.status == "completed")
                begun = await client.responses.create(**asking, background=True)
                async with asyncio.timeout(HANG):
                    # In the stream, and after it.
                    while (await client.responses.retrieve(begun.id)).status == "in_progress":
                        gateway.clock.now += LEASE if len(failed) == 2 else 0.0
            else:
                failing(patch, Library, "_keep", lambda *_: True)
                with pytest.raises(openai.APIError) as caught:
                    await read(client, **asking, stream=way == "streamed")
                assert caught.value.code == "store_unusable"
        (tmp_path / "workspace" / "a.txt").write_text("two")
        done = await ended(client, await client.responses.create(**asking, background=way == "background"))
        assert [one.type for one in done.output] == ["function_call_output", "message"]
        # It ran once, and nothing waits any more.
        assert (tmp_path / "workspace" / "a.txt").read_text() == "two"
        async with asyncio.timeout(HANG):
            while store.all():
                # It is forgotten after the response can be read.
                await client.responses.retrieve(done.id)


async def test_no_event_follows_an_end_that_is_stored_late(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "_BEAT", 0.1)
    failed = failing(monkeypatch, Library, "_keep", lambda *_: len(failed) < 3)
    headers = {"authorization": f"Bearer {KEYS['ada']}"}
    async with storing(tmp_path, keep_alive=0.02) as gateway, gateway.front.plain(headers=headers) as client:
        answer = await client.post("/v1/responses", json={"model": "any", "input": "One.", "stream": True})
    # They say that the connection is alive.
    assert b": working" in answer.content
    check_stream([answer.content])
    assert len(failed) == 3
