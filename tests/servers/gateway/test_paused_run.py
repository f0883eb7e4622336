"""Calls that wait for a person behind the gateway: asked again, answered by the operator, and gone on with once."""

import asyncio
import contextlib
import dataclasses
import json
import pathlib
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import openai
import pytest
from frozendict import frozendict

from ripieno.approvals import Answer, Approve, DeferredConfirmer
from ripieno.assembly import assemble
from ripieno.canisters import ResultCanister
from ripieno.canisters.events import Event, InvocationSealed
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.exceptions import Conflict, InputError, ProviderRefusal, RipienoError
from ripieno.models import Model
from ripieno.models.protocol import Asked
from ripieno.models.protocols.openai_responses import PROTOCOL
from ripieno.servers.gateway.application import create_application
from ripieno.servers.gateway.stored.requests import References, StoredRequest, Waiting
from ripieno.servers.http.keys import digest_of
from ripieno.storage.journal import NAME
from ripieno.testing import call, turn
from tests.servers.gateway.test_errors import CLIENTS
from tests.support.databases import paused_in
from tests.support.gateways import KINDS, Backend, Front, before
from tests.support.hosted_runs import (
    CALLER,
    Counted,
    Played,
    asks,
    calls_in,
    end_of,
    items_of,
    output,
    results_in,
    sends,
    staged,
)
from tests.support.openresponses_checker import StreamChecker, check_body
from tests.support.scripted_models import Blocking, ensemble, invoke, invokes, says, scripted, tool

KEY, OTHER = "key-of-ada-1234567890", "key-of-eve-1234567890"
SECRET = "a secret of sixteen bytes or more"
WRITES = [
    turn("I write.", calls=[call("write_file", "w", path="a.txt", content="one")]),
    turn("It says: {w}", expect=["w"]),
]
GO: list[Any] = [{"role": "user", "content": "Go."}]


@dataclasses.dataclass(frozen=True, slots=True)
class Deferring:
    """A gateway whose calls wait, what is behind it, and what its operator has."""

    front: Front
    backend: Backend
    store: PausedStore
    workspace: pathlib.Path

    def answer(self, answer: Answer) -> str:
        """The operator answers all that wait; the identifier of the only conversation."""
        (paused,) = self.store.all()
        self.store.answer(paused.identifier, {one.invocation: answer for one in paused.unanswered}, owner=paused.owner)
        return paused.identifier

    async def ask(self, said: Any, key: str = KEY, **more: Any) -> Any:
        """A whole response, which satisfies the public schema."""
        async with self.front.openai(api_key=key) as client:
            raw = await client.responses.with_raw_response.create(model="any", input=said, **more)
            check_body(raw.content)
            return raw.parse()

    async def go_on(self, previous: Any, said: Any = (), **more: Any) -> Any:
        """The response that continues another one."""
        return await self.ask(said, previous_response_id=previous.id, **more)

    async def stream(self, said: Any, **more: Any) -> dict[str, Any]:
        """A streamed response, whose events are checked."""
        body = {"model": "any", "input": said, "stream": True, **more}
        headers = {"authorization": f"Bearer {KEY}"}
        checker = StreamChecker()
        async with (
            self.front.plain(headers=headers) as plain,
            plain.stream("POST", "/v1/responses", json=body) as streamed,
        ):
            assert streamed.status_code == 200, await streamed.aread()
            async for piece in streamed.aiter_raw():
                checker.write(piece)
        return checker.end().response


@contextlib.asynccontextmanager
async def deferring(folder: pathlib.Path, what: Iterable[Any]) -> AsyncGenerator[Deferring, None]:
    """A gateway in front of a backend that plays turns."""
    keys = frozendict({"ada": digest_of(KEY), "eve": digest_of(OTHER)})
    settings = {"ensembles": ("io",), "absent": "defer", "secret": SECRET, "keys": keys, "store": StoreDescriptor()}
    async with before(folder, KINDS["openai-chat"], what, confirmer=DeferredConfirmer(), **settings) as (
        front,
        backend,
    ):
        yield Deferring(front, backend, paused_in(folder / "state"), folder / "workspace")


# Over HTTP, with the official client.


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_call_waits_is_asked_for_again_and_gone_on_with(tmp_path: pathlib.Path, *, streamed: bool) -> None:
    async with deferring(tmp_path, WRITES) as gateway:

        async def ask(said: Any, previous: str | None = None) -> dict[str, Any]:
            if streamed:
                return await gateway.stream(said, previous_response_id=previous)
            response: dict[str, Any] = (await gateway.ask(said, previous_response_id=previous)).to_dict()
            return response

        first = await ask("Go.")
        assert (first["status"], first["incomplete_details"]) == ("incomplete", {"reason": "waiting_for_approval"})
        assert [one["type"] for one in first["output"]] == ["message", "function_call"]
        waiting = first["output"][-1]
        assert (waiting["status"], waiting["name"]) == ("incomplete", "write_file")
        (paused,) = gateway.store.all()
        assert (paused.owner, paused.model, paused.tools) == ("ada", "back/small", ("io",))
        asked = len(gateway.backend.asked)
        last = first
        for _ in range(3):
            last = await ask([], last["id"])
            assert last["status"] == "incomplete"
            (item,) = last["output"]
            assert {**item, "id": waiting["id"]} == waiting
        assert len(gateway.backend.asked) == asked == 1
        assert list(gateway.workspace.iterdir()) == []
        gateway.answer(Approve())
        ended = await ask([], last["id"])
        assert ended["status"] == "completed"
        assert [one["type"] for one in ended["output"]] == ["function_call_output", "message"]
        assert ended["output"][0]["call_id"] == waiting["call_id"]
        assert (gateway.workspace / "a.txt").read_text() == "one"
        assert gateway.store.all() == ()
        assert len(gateway.backend.asked) == 2
        # From here on the stored conversation has everything once, and nothing waits.
        assert (await ask("And?", ended["id"]))["status"] != "failed"
        assert len(gateway.backend.asked) == 3
        shown = gateway.backend.asked[-1].canisters
        assert sum(type(one).__name__ == "InvocationCanister" for one in shown) == 1
        assert sum(type(one).__name__ == "ResultCanister" for one in shown) == 1
        async with gateway.front.openai(api_key=KEY) as client:
            with pytest.raises(openai.ConflictError, match="no longer waits"):
                await client.responses.create(model="any", input=[], previous_response_id=first["id"])


async def test_another_caller_and_other_requests_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    async with deferring(tmp_path, WRITES) as gateway:
        first = await gateway.ask("Go.")
        gateway.answer(Approve())
        item = first.output[-1].to_dict()
        strange: list[tuple[Any, dict[str, Any], str]] = [
            ("Hurry.", {}, "no message can follow it"),
            ([output(item["call_id"], "done")], {}, "Leave out the result"),
            ([], {"store": False}, "continue it with store = true"),
        ]
        async with gateway.front.openai(api_key=KEY) as client:
            for items, more, words in strange:
                with pytest.raises(openai.BadRequestError, match=words):
                    await client.responses.create(model="any", input=items, previous_response_id=first.id, **more)
            # What it sends itself waits for nothing.
            with pytest.raises(openai.BadRequestError, match="no result for 'write_file'"):
                await client.responses.create(model="any", input=[*GO, item])
        async with gateway.front.openai(api_key=OTHER) as client:
            with pytest.raises(openai.BadRequestError, match="is not stored here"):
                await client.responses.create(model="any", input=[], previous_response_id=first.id)
        assert len(gateway.backend.asked) == 1
        assert list(gateway.workspace.iterdir()) == []
        assert (await gateway.go_on(first, [])).status == "completed"


async def test_no_field_of_a_body_claims_what_waits(tmp_path: pathlib.Path) -> None:
    async with deferring(tmp_path, WRITES) as gateway:
        await gateway.ask("Go.")
        identifier = gateway.answer(Approve())
        claim = {"conversation": identifier, "shown": 3, "calls": ["w"]}
        async with gateway.front.openai(api_key=KEY) as client:
            for name in ("waiting", "claim", "paused", "stored"):
                answer = await client.responses.create(model="any", input=GO, extra_body={name: claim})
                assert "function_call_output" not in [one.type for one in answer.output]
        assert list(gateway.workspace.iterdir()) == []


async def test_of_many_that_go_on_at_once_one_does(tmp_path: pathlib.Path) -> None:
    async with deferring(tmp_path, WRITES) as gateway:
        first = await gateway.ask("Go.")
        gateway.answer(Approve())
        outcomes = await asyncio.gather(*(gateway.go_on(first, []) for _ in range(8)), return_exceptions=True)
        (ended,) = [one for one in outcomes if not isinstance(one, BaseException)]
        assert ended.status == "completed"
        refused = [one for one in outcomes if isinstance(one, BaseException)]
        assert all(isinstance(one, openai.ConflictError) for one in refused), refused
        assert len(refused) == 7
        assert len(gateway.backend.asked) == 2


async def test_what_is_not_stored_cannot_wait(tmp_path: pathlib.Path) -> None:
    async with deferring(tmp_path, WRITES) as gateway:
        answer = await gateway.ask("Go.", store=False)
        assert answer.status == "completed"
        assert "for which it cannot wait here" in str([one.to_dict() for one in answer.output])
        assert gateway.store.all() == ()
        assert list(gateway.workspace.iterdir()) == []


@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_other_wires_are_told_in_words(tmp_path: pathlib.Path, wire: str) -> None:
    async with deferring(tmp_path, WRITES) as gateway:
        ask, _ = CLIENTS[wire]
        answer = await ask(gateway.front, False, api_key=KEY)
        if wire == "chat":
            text, finish = str(answer.choices[0].message.content), answer.choices[0].finish_reason
        else:
            text, finish = "".join(getattr(one, "text", "") for one in answer.content), str(answer.stop_reason)
        (paused,) = gateway.store.all()
        assert text.startswith("I write.\n\nWaiting for a person's approval: io.write_file")
        assert f"ripieno approvals show {paused.identifier[:8]}" in text
        assert finish == ("stop" if wire == "chat" else "end_turn")
        assert list(gateway.workspace.iterdir()) == []


# What a stage does, and when.


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """A request and its part in the store."""

    asked: Asked
    stored: StoredRequest


def part(claim: Waiting | None = None) -> StoredRequest:
    """The part in the store of a request that continues what waits in another one."""
    references = References(stores=True, parent=None, conversation=None, background=False)
    return StoredRequest(caller=CALLER, references=references, own=(), identifier="resp_1", claim=claim)


@contextlib.asynccontextmanager
async def waiting(
    folder: pathlib.Path, model: Model, *tools: Any, **settings: Any
) -> AsyncGenerator[tuple[Played, Said, PausedStore], None]:
    """A stage some of whose calls wait, and what its client sends next."""
    settings = {"absent": "defer", **settings}
    async with staged(folder, ensemble(*tools), confirmer=DeferredConfirmer(), **settings) as played:
        said = Said(sends([], tools=["shell"]), part())
        events = await played.answer(model, said.asked, stored=said.stored)
        yield played, follow(said, events), paused_in(folder / "state")


def follow(said: Said, events: list[Event], *results: Any) -> Said:
    """What a client sends next."""
    response = json.loads(PROTOCOL.encode(events, said.asked))
    items = said.stored.body(response)["output"]
    asked = sends([*said.asked.native["input"][1:], *items, *results], tools=["shell"])
    return Said(asked, part(said.stored.waiting))


async def go_on(played: Played, model: Model, said: Said) -> list[Event]:
    """The answer to a follow-up."""
    batches = going_on(played, model, said)
    async with contextlib.aclosing(batches):
        return [event async for batch in batches for event in batch]


def going_on(played: Played, model: Model, said: Said) -> Any:
    plan = played.stage.plan(said.asked, CALLER, said.stored, defers=True)
    assert plan is not None
    return plan.respond(model, wire=PROTOCOL.name)


def approve(store: PausedStore) -> Paused:
    (paused,) = store.all()
    return store.answer(paused.identifier, {one.invocation: Approve() for one in paused.unanswered}, owner=paused.owner)


async def test_an_approval_is_good_for_the_call_that_was_shown(tmp_path: pathlib.Path) -> None:
    """One that was changed meanwhile: it is asked about again, and the response leads there."""
    write = Counted()
    model = scripted(invokes(invoke("write", "w", n=1)), says())
    tools = tool("write", write, effect="write")
    async with waiting(tmp_path, model, tools) as (_, asked, store):
        approve(store)
    rules = {"confirmation": {"deny": ["mine.other"]}}
    async with staged(
        tmp_path, ensemble(tools), confirmer=DeferredConfirmer(), absent="defer", configuration=rules
    ) as played:
        events = await go_on(played, model, asked)
        assert (end_of(events).finish, end_of(events).reason) == ("limit", "waiting_for_approval")
        (paused,) = store.all()
        assert len(paused.unanswered) == 1
        assert (write.runs, len(model.asked)) == ([], 1)
        approve(store)
        assert results_in(await go_on(played, model, asked)) == [("w", "result 1")]
    assert len(write.runs) == 1


async def test_an_approval_that_is_too_old_is_a_denial(tmp_path: pathlib.Path) -> None:
    write = Counted()
    model = scripted(invokes(invoke("write", "w")), says())
    async with waiting(tmp_path, model, tool("write", write, effect="write")) as (played, asked, store):
        paused = approve(store)
        (given,) = paused.answers.values()
        assert given.binding is not None
        token = store.grants.issue(given.binding, seconds=1e-9).token
        store.save(dataclasses.replace(paused, answers={"w": dataclasses.replace(given, token=token)}))
        ((_, text),) = results_in(await go_on(played, model, asked))
        assert "it has expired" in text
        assert store.all() == ()
    assert write.runs == []


async def test_later_calls_wait_as_well_and_a_lost_answer_is_told_again(tmp_path: pathlib.Path) -> None:
    write = Counted()
    steps = [invokes(invoke("write", f"w{number}", n=number)) for number in range(3)]
    model = scripted(*steps, says("All."))
    async with waiting(tmp_path, model, tool("write", write, effect="write")) as (played, begun, store):
        asked = begun
        for number in range(3):
            approve(store)
            events = await go_on(played, model, asked)
            told = [(f"w{number}", f"result {number + 1}")]
            assert results_in(events) == told
            assert len(write.runs) == number + 1
            if number < 2:
                assert [one.identifier for one in calls_in(events)] == [f"w{number + 1}"]
                # It was lost: whoever asks again, with what it had before, is told it once more.
                lost = await go_on(played, model, asked)
                assert (results_in(lost), calls_in(lost)) == (told, calls_in(events))
                assert end_of(lost).reason == "waiting_for_approval"
                asked = follow(asked, events)
        assert end_of(events).finish == "stop"
        assert store.all() == ()
    assert len(model.asked) == 4


async def test_a_client_that_leaves_finds_the_result_when_it_comes_back(tmp_path: pathlib.Path) -> None:
    """It leaves at every event; the approved call has run once, whenever it does."""
    for left in range(5):
        write = Counted()
        folder = tmp_path / str(left)
        folder.mkdir()
        model = scripted(invokes(invoke("write", "w")), says("All."))
        async with waiting(folder, model, tool("write", write, effect="write")) as (played, asked, store):
            approve(store)
            batches = going_on(played, model, asked)
            async with contextlib.aclosing(batches):
                for _ in range(left):
                    await anext(batches, None)
            if left == 0:
                # Nothing had begun.
                assert write.runs == []
            if not store.all():
                with pytest.raises(Conflict):
                    await go_on(played, model, asked)
            else:
                again = scripted(says("All."))
                events = await go_on(played, again, asked)
                assert [one for one, _ in results_in(events)] == ["w"]
                assert items_of(events)[-1]["content"] == "All."
                assert store.all() == ()
        assert len(write.runs) <= 1


async def test_a_model_that_fails_behind_it_is_asked_again_without_the_call(tmp_path: pathlib.Path) -> None:
    write = Counted()
    model = scripted(invokes(invoke("write", "w")), [ProviderRefusal("score", "No.")], says("All."))
    async with waiting(tmp_path, model, tool("write", write, effect="write")) as (played, asked, store):
        approve(store)
        with pytest.raises(ProviderRefusal):
            await go_on(played, model, asked)
        events = await go_on(played, model, asked)
        assert results_in(events) == [("w", "result 1")]
        assert end_of(events).finish == "stop"
    assert len(write.runs) == 1


async def test_nobody_else_has_it_while_it_runs(tmp_path: pathlib.Path) -> None:
    slow = Blocking(value="slow")
    model = scripted(invokes(invoke("write", "w")), says())
    async with waiting(tmp_path, model, tool("write", slow, effect="write")) as (played, asked, store):
        approve(store)
        going = asyncio.create_task(go_on(played, model, asked))
        await slow.began.wait()
        with pytest.raises(Conflict, match="Try again later"):
            await go_on(played, model, asked)
        (paused,) = store.all()
        with (
            pytest.raises(InputError, match="Another process conducts"),
            store.claimed(paused.identifier, owner=paused.owner),
        ):
            pytest.fail("It is taken.")
        # Were the process killed now, nobody would know, and nobody would run it again.
        (feared,) = [one for one in paused.conversation.canisters if isinstance(one, ResultCanister)]
        assert feared.error is not None
        assert feared.error.category == "outcome_unknown"
        assert (paused.conversation.open, paused.unanswered) == ((), ())
        slow.go.set()
        assert results_in(await going) == [("w", "slow")]


async def test_a_grant_that_somebody_used_and_told_no_end_of_runs_nothing(tmp_path: pathlib.Path) -> None:
    write = Counted()
    model = scripted(invokes(invoke("write", "w")), says())
    async with waiting(tmp_path, model, tool("write", write, effect="write")) as (played, asked, store):
        (given,) = approve(store).answers.values()
        assert given.binding is not None
        store.grants.redeem(given.token, given.binding)
        ((_, text),) = results_in(await go_on(played, model, asked))
        assert "Its outcome is unknown." in text
    assert write.runs == []


async def test_without_words_for_it_a_mixed_turn_is_denied(tmp_path: pathlib.Path) -> None:
    model = scripted(invokes(invoke("write", "w"), invoke("shell", "s")), says())
    tools = ensemble(tool("write", effect="write"))
    async with staged(tmp_path, tools, confirmer=DeferredConfirmer(), absent="defer") as played:
        events = await played.answer(model, asks(tools=["shell"]), shows=False)
        assert [one.name for one in calls_in(events)] == ["shell"]
        assert end_of(events).finish == "open"
        assert paused_in(tmp_path / "state").all() == ()


async def test_calls_of_a_turn_are_told_in_order_with_what_waits_behind_them(tmp_path: pathlib.Path) -> None:
    steps = [invoke("look", "a"), invoke("write", "b"), invoke("write", "c", n=2), invoke("shell", "d")]
    model = scripted(invokes(*steps), says())
    write = Counted()
    async with waiting(tmp_path, model, tool("look"), tool("write", write, effect="write")) as (played, asked, store):
        items = asked.asked.native["input"][1:]
        calls = [(one["call_id"], one["status"]) for one in items if one["type"] == "function_call"]
        assert calls == [("a", "completed"), ("b", "incomplete"), ("c", "incomplete"), ("d", "completed")]
        approve(store)
        done = dataclasses.replace(asked, asked=sends([*items, output("d", "ok")], tools=["shell"]))
        events = await go_on(played, model, done)
        waits = [one.invocation.identifier for one in events if isinstance(one, InvocationSealed)]
        while waits:
            approve(store)
            done = follow(done, events)
            events = await go_on(played, model, done)
            waits = [one.invocation.identifier for one in events if isinstance(one, InvocationSealed)]
        assert end_of(events).finish == "stop"
    assert len(write.runs) == 2


async def test_a_folder_that_cannot_be_written_runs_nothing_and_tells_no_path(tmp_path: pathlib.Path) -> None:
    write = Counted()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / NAME).write_text("no database")
    model = scripted(invokes(invoke("write", "w")), says())
    tools = ensemble(tool("write", write, effect="write"))
    async with staged(tmp_path, tools, confirmer=DeferredConfirmer(), absent="defer") as played:
        with pytest.raises(RipienoError, match="cannot be saved") as caught:
            await played.answer(model, asks(), stored=part())
    assert str(tmp_path) not in str(caught.value)
    assert write.runs == []


async def test_without_a_folder_it_is_refused_at_the_start(tmp_path: pathlib.Path) -> None:
    table = {**KINDS["openai-chat"].provider, "base_url": "http://127.0.0.1:9/v1", "api_key": "none"}
    assembly = assemble({"providers": {"back": table}}, workspace=tmp_path, confirmer=DeferredConfirmer())
    assembly.loaded = dataclasses.replace(assembly.loaded, state=None)
    async with assembly:
        settings = GatewayDescriptor(absent="defer", models=("back/small",), secret=SECRET, store=StoreDescriptor())
        with pytest.raises(InputError, match="needs a state folder"):
            create_application(assembly, settings=settings)
