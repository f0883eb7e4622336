"""Stored responses over HTTP, with the official client: fetched, listed, continued, limited, deleted, and guessed."""

import json
import pathlib
import secrets
from typing import Any

import openai
import pytest

from ripieno.approvals import Approve, DeferredConfirmer
from ripieno.canisters import AssistantCanister, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import Event
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.exceptions import ResourceFault
from ripieno.models.protocol import Asked
from ripieno.testing import call, turn
from tests.counts import count
from tests.servers.gateway.test_errors import CLIENTS
from tests.support.gateways import says
from tests.support.openresponses_checker import check_body
from tests.support.postgresql import NewPlace
from tests.support.stores import CHAT, KEYS, SECRET, Storing, files_of, storing


def texts(gateway: Storing) -> list[str]:
    """The texts of the last request to the backend."""
    said = gateway.backend.asked[-1].canisters
    return [text_of(one.content) for one in said if isinstance(one, UserCanister | AssistantCanister)]


def fine(_: Asked) -> list[Event]:
    return says(CHAT, [AssistantCanister.of("Fine.")])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_fetched_and_continued(
    tmp_path: pathlib.Path, new_place: NewPlace, *, streamed: bool
) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:

        async def create(said: Any, **more: Any) -> Any:
            if not streamed:
                return await client.responses.create(model="any", input=said, **more)
            events = [one async for one in await client.responses.create(model="any", input=said, stream=True, **more)]
            # The client may continue as soon as it has seen this event.
            assert events[-1].type == "response.completed"
            return events[-1].response

        first = await create("One.", instructions="Be brief.")
        second = await create("Two.", previous_response_id=first.id)
        third = await create([{"role": "user", "content": "Three."}], previous_response_id=second.id)
        assert texts(gateway) == ["One.", "I read One.", "Two.", "I read One. Two.", "Three."]
        # Old instructions are not carried over, and another branch has its own history.
        assert [type(one).__name__ for one in gateway.backend.asked[-1].canisters].count("SupervisorCanister") == 0
        await create("Other.", previous_response_id=first.id)
        assert texts(gateway) == ["One.", "I read One.", "Other."]
        raw = await client.responses.with_raw_response.retrieve(third.id)
        check_body(raw.content)
        found = raw.parse()
        assert found == third
        assert (found.previous_response_id, found.to_dict()["store"], found.background) == (second.id, True, False)
        items = [one async for one in client.responses.input_items.list(third.id)]
        assert [one.to_dict()["content"][0]["text"] for one in items] == ["Three."]


async def test_items_are_listed_in_pages(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        said: Any = [{"role": "user", "content": str(number)} for number in range(7)]
        first = await client.responses.create(model="any", input=said)
        for order, expected in (("asc", "0123456"), ("desc", "6543210")):
            page = await client.responses.input_items.list(first.id, limit=3, order=order)  # type: ignore[arg-type]
            assert (len(page.data), page.has_more) == (3, True)
            found = "".join([one.to_dict()["content"][0]["text"] async for one in page])  # type: ignore[index]
            assert found == expected
        for query in ({"limit": 0}, {"limit": 101}, {"after": "msg_unknown"}, {"order": "random"}):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.responses.input_items.list(first.id, **query)  # type: ignore[arg-type]
            assert caught.value.param == next(iter(query))


async def test_what_is_deleted_is_gone_and_so_is_what_continues_it(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        second = await client.responses.create(model="any", input="Two.", previous_response_id=first.id)
        await client.responses.delete(first.id)
        for asking in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await asking(first.id)
        assert (await client.responses.retrieve(second.id)).id == second.id
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="any", input="Three.", previous_response_id=second.id)
        assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
        assert gateway.rows()["responses"] == 1


async def test_foreign_and_unknown_are_answered_alike(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    """The same status and bytes, after the same statements: no row is read in either case."""
    async with storing(tmp_path, place=new_place()) as gateway:
        async with gateway.client() as client:
            response = await client.responses.create(model="any", input="One.")
            conversation = await client.conversations.create(items=[{"role": "user", "content": "Hi."}])
            (item,) = (await client.conversations.items.list(conversation.id)).data
        headers = {"authorization": f"Bearer {KEYS['eve']}", "content-type": "application/json"}
        async with gateway.front.plain(headers=headers) as plain:

            async def ask(identifier: str, method: str, path: str, body: Any = None) -> tuple[int, bytes, list[str]]:
                path, given = path.format(identifier), json.dumps(body).replace("{}", identifier)
                with gateway.watched() as statements:
                    answer = await plain.request(method, path, content=given if body is not None else None)
                return answer.status_code, answer.content, statements

            routes: list[tuple[str, str, str, Any]] = [
                ("resp", "GET", "/v1/responses/{}", None),
                ("resp", "GET", "/v1/responses/{}?stream=true", None),
                ("resp", "DELETE", "/v1/responses/{}", None),
                ("resp", "POST", "/v1/responses/{}/cancel", {}),
                ("resp", "GET", "/v1/responses/{}/input_items", None),
                ("resp", "POST", "/v1/responses", {"model": "any", "input": "Hi.", "previous_response_id": "{}"}),
                ("conv", "GET", "/v1/conversations/{}", None),
                ("conv", "POST", "/v1/conversations/{}", {"metadata": {}}),
                ("conv", "DELETE", "/v1/conversations/{}", None),
                ("conv", "GET", "/v1/conversations/{}/items", None),
                ("conv", "POST", "/v1/conversations/{}/items", {"items": []}),
                ("conv", "GET", "/v1/conversations/{}/items/" + str(item.id), None),
                ("conv", "DELETE", "/v1/conversations/{}/items/" + str(item.id), None),
                ("conv", "POST", "/v1/responses", {"model": "any", "input": "Hi.", "conversation": "{}"}),
            ]
            foreign = {"resp": response.id, "conv": conversation.id}
            for kind, *route in routes:
                expected = await ask(foreign[kind], *route)
                assert expected[0] == (400 if "previous_response_id" in str(route) else 404), expected
                for _ in range(count(10_000) // len(routes)):
                    assert await ask(f"{kind}_{secrets.token_hex(16)}", *route) == expected
                for odd in (kind, f"{kind}_", f"{kind}_{'0' * 31}", f"{kind}_{'G' * 32}", f"{kind}_{'0' * 33}"):
                    assert (await ask(odd, *route))[:2] == expected[:2]
        async with gateway.client() as client:
            assert (await client.responses.retrieve(response.id)).id == response.id
            assert (await client.conversations.items.list(conversation.id)).data == [item]
        assert len(gateway.backend.asked) == 1


async def test_a_key_may_be_replaced(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
    async with storing(tmp_path, renamed={"ada": KEYS["eve"]}) as gateway, gateway.client("eve") as client:
        assert (await client.responses.retrieve(first.id)).output_text == "I read One."


async def test_store_false_touches_no_disk(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        await client.responses.create(model="any", input="The canary of what is stored.")
        before, rows = gateway.settled_files(), gateway.rows()
        for streamed in (False, True):
            answer = await client.responses.create(model="any", input="One.", store=False, stream=streamed)
            if streamed:
                assert [one.type async for one in answer][-1] == "response.completed"  # type: ignore[union-attr]
            else:
                assert answer.to_dict()["store"] is False  # type: ignore[union-attr]
        for kind in ("chat", "messages"):
            await CLIENTS[kind][0](gateway.front, False, api_key=KEYS["ada"])
        for refused in ({"background": True}, {"conversation": "conv_1"}):
            with pytest.raises(openai.BadRequestError, match="needs store = true"):
                await client.responses.create(model="any", input="One.", store=False, **refused)  # type: ignore[call-overload]
        assert (gateway.files(), gateway.rows()) == (before, rows)


async def test_an_answer_that_is_not_stored_may_continue_one_that_is(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        second = await client.responses.create(model="any", input="Two.", previous_response_id=first.id, store=False)
        assert (second.previous_response_id, second.output_text) == (first.id, "I read One. Two.")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(second.id)
        assert gateway.rows()["responses"] == 1


async def test_the_operator_decides_what_is_stored_unasked(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, store=StoreDescriptor(default=False)) as gateway, gateway.client() as client:
        assert (await client.responses.create(model="any", input="One.")).to_dict()["store"] is False
        assert gateway.rows()["responses"] == 0
        assert (await client.responses.create(model="any", input="One.", store=True)).to_dict()["store"] is True
        assert gateway.rows()["responses"] == 1


async def test_files_have_no_plaintext(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        words = "The canary of what is stored"
        first = await client.responses.create(model="any", input=words, metadata={"note": "canary of metadata"})
        stream = await client.responses.create(model="any", input=words, background=True, stream=True)
        assert [one.type async for one in stream][-1] == "response.completed"
        await client.conversations.create(items=[{"role": "user", "content": words}], metadata={"a": "canary"})
        assert first.output_text == f"I read {words}"
        everything = files_of(gateway.state)
        assert b"resp_" in everything
        assert b"anary" not in everything


async def test_limits_have_errors_of_their_own(tmp_path: pathlib.Path) -> None:
    limits = StoreDescriptor(responses=3, chain=2)
    async with storing(tmp_path, store=limits) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        second = await client.responses.create(model="any", input="Two.", previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="any", input="Three.", previous_response_id=second.id)
        assert caught.value.code == "chain_too_long"
        await client.responses.create(model="any", input="Three.")
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="any", input="Four.")
        assert caught.value.code == "store_full"
        assert len(gateway.backend.asked) == 3
        async with gateway.client("eve") as other:
            await other.responses.create(model="any", input="One.")
        await client.responses.create(model="any", input="Four.", store=False)
        await client.responses.delete(first.id)
        await client.responses.create(model="any", input="Four.")


async def test_what_has_expired_is_unknown(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, store=StoreDescriptor(days=2)) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        gateway.clock.now += 2 * 86_400 - 1
        await client.responses.retrieve(first.id)
        gateway.clock.now += 1
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError, match="is not stored here"):
            await client.responses.create(model="any", input="Two.", previous_response_id=first.id)


async def test_results_of_tools_here_are_history(tmp_path: pathlib.Path) -> None:
    play = [
        turn("I look.", calls=[call("read_file", "r", path="a.txt")]),
        turn("It says: {r}", expect=["r"]),
        turn("You said: {r}"),
    ]
    async with storing(tmp_path, play, ensembles=("io",)) as gateway, gateway.client() as client:
        (tmp_path / "workspace" / "a.txt").write_text("forty-two")
        first = await client.responses.create(model="any", input="Read a.txt.")
        assert "forty-two" in first.output_text
        await client.responses.create(model="any", input="Again?", previous_response_id=first.id)
        # The first request after those of the first response.
        kinds = [type(one).__name__ for one in gateway.backend.asked[2].canisters]
        assert kinds.count("ResultCanister") == kinds.count("InvocationCanister") == 1


async def test_calls_of_the_client_need_their_results(tmp_path: pathlib.Path) -> None:
    play = [turn("", calls=[call("look", "l")]), turn("Fine.", expect=["l"])]
    tools: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    async with storing(tmp_path, play) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="Look.", tools=tools)
        (made,) = first.output
        assert made.type == "function_call"
        with pytest.raises(openai.BadRequestError, match="no result for 'look'"):
            await client.responses.create(model="any", input="Well?", previous_response_id=first.id, tools=tools)
        said: Any = [{"type": "function_call_output", "call_id": made.call_id, "output": "nothing"}]
        second = await client.responses.create(model="any", input=said, previous_response_id=first.id, tools=tools)
        assert second.output_text == "Fine."


async def test_references_exclude_each_other_and_have_types(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        for body, words in (
            ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "exclude each other"),
            ({"previous_response_id": 7}, "previous_response_id is an identifier"),
            ({"conversation": {"id": 7}}, "conversation is an identifier"),
            ({"conversation": {}}, "conversation has no id"),
            ({"store": "yes"}, "store is true or false"),
            ({"background": 1}, "background is true or false"),
        ):
            with pytest.raises(openai.BadRequestError, match=words):
                await client.responses.create(model="any", input="Hi.", extra_body=body)
        assert gateway.backend.asked == []


async def test_an_item_stands_for_itself(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        (said,) = (await client.responses.input_items.list(first.id)).data
        conversation = await client.conversations.create(items=[{"role": "user", "content": "Zero."}])
        (zero,) = (await client.conversations.items.list(conversation.id)).data
        names = [str(zero.id), said.to_dict()["id"], first.output[0].to_dict()["id"]]
        given: Any = [{"type": "item_reference", "id": name} for name in names]
        # The type may be left out.
        del given[1]["type"]
        for stored in (True, False):
            second = await client.responses.create(
                model="any", input=[*given, {"role": "user", "content": "Two."}], store=stored
            )
            assert second.output_text == "I read Zero. One. Two."
            assert texts(gateway) == ["Zero.", "One.", "I read One.", "Two."]
            if stored:
                items = [one.to_dict() async for one in client.responses.input_items.list(second.id, order="asc")]
                assert [one["content"][0]["text"] for one in items] == ["Zero.", "One.", "I read One.", "Two."]
        # What it refers to may be deleted later.
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError, match="no item") as caught:
            await client.responses.create(model="any", input=given)
        assert (caught.value.code, caught.value.param) == ("item_not_found", "input[1]")


async def test_items_are_referred_to_within_the_limits_of_a_chain(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    limits = StoreDescriptor(chain_bytes=50_000)
    async with storing(tmp_path, fine, place=new_place(), store=limits) as gateway, gateway.client() as client:
        said = {"role": "user", "content": "a" * 20_000}
        first = await client.responses.create(model="any", input=[said, said])
        conversation = await client.conversations.create(items=[said, said])
        of_response: list[Any] = [one.to_dict()["id"] async for one in client.responses.input_items.list(first.id)]
        of_conversation: list[Any] = [one.id async for one in client.conversations.items.list(conversation.id)]

        async def ask(*names: str) -> Any:
            given: Any = [{"type": "item_reference", "id": name} for name in names]
            return await client.responses.create(model="any", input=given, store=False)

        for one, other in (of_response, of_conversation):
            await ask(one, other)
            # The same item, however often, is as much as others.
            with pytest.raises(openai.BadRequestError, match="more than 50000 bytes") as caught:
                await ask(one, other, one)
            assert caught.value.code == "chain_too_long"
        with gateway.watched() as statements, pytest.raises(openai.BadRequestError, match="more than 50000 bytes"):
            await ask(*of_response, *of_conversation)
        # What is too much in itself is not read.
        assert statements
        assert not [one for one in statements if "body" in one]
        assert len(gateway.backend.asked) == 3


async def test_what_is_stored_shares_the_budget_of_memory(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    place = new_place()
    async with storing(tmp_path, fine, place=place) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="a" * 40_000)
        second = await client.responses.create(model="any", input="b" * 40_000, previous_response_id=first.id)
        large = await client.responses.create(model="any", input="c" * 70_000, background=True)
    async with storing(tmp_path, fine, place=place, memory_bytes=12 * 60_000) as gateway, gateway.client() as client:
        name = str((await client.responses.input_items.list(first.id)).data[0].id)
        refer: Any = [{"type": "item_reference", "id": name}] * 2
        with gateway.watched() as statements:
            for asking in (
                client.responses.create(model="any", input="Go.", previous_response_id=second.id),
                client.responses.create(model="any", input=refer),
                client.responses.retrieve(large.id),
                client.responses.input_items.list(large.id),
                client.responses.cancel(large.id),
                client.responses.delete(large.id),
            ):
                with pytest.raises(openai.InternalServerError) as caught:
                    await asking
                assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
        assert not [one for one in statements if "WITH RECURSIVE" in one]
        # Nothing is held.
        for _ in range(2):
            assert (await client.responses.retrieve(first.id)).output_text == "Fine."
            assert (await client.responses.create(model="any", input="Go.", previous_response_id=first.id)).output_text
            await client.responses.create(model="any", input=refer[:1], store=False)


async def test_foreign_and_unknown_items_are_answered_alike(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.")
        conversation = await client.conversations.create(items=[{"role": "user", "content": "Hi."}])
        (item,) = (await client.conversations.items.list(conversation.id)).data
        headers = {"authorization": f"Bearer {KEYS['eve']}", "content-type": "application/json"}
        async with gateway.front.plain(headers=headers) as plain:

            async def ask(name: str) -> tuple[int, bytes, list[str]]:
                body = {"model": "any", "input": [{"type": "item_reference", "id": name}]}
                with gateway.watched() as statements:
                    answer = await plain.post("/v1/responses", json=body)
                return answer.status_code, answer.content, statements

            for foreign in (first.output[0].to_dict()["id"], str(item.id)):
                expected = await ask(foreign)
                assert expected[0] == 404
                beginning, _, rest = foreign.partition("_ripieno_")
                token, _, place = rest.rpartition("_")
                kind = "in" if token.startswith("in") else ""
                for _ in range(count(1_000, 20)):
                    assert await ask(f"{beginning}_ripieno_{kind}{secrets.token_hex(10)}_{place}") == expected
            for odd in ("", "msg_1", "%", "resp_", "msg_ripieno_%_0"):
                assert (await ask(odd))[:2] == expected[:2]
        assert len(gateway.backend.asked) == 1


async def test_the_journal_forgets_what_is_deleted(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    play = [turn("I look.", calls=[call("read_file", "r", path="a.txt")]), turn("It says: {r}", expect=["r"])]
    async with storing(tmp_path, play, place=new_place(), ensembles=("io",), recorded=True) as gateway:
        (tmp_path / "workspace" / "a.txt").write_text("forty-two")
        async with gateway.client() as client:
            first = await client.responses.create(model="any", input="Read a.txt.")
            journal: Any = gateway.front.assembly.execution.reporter.recorder
            lines = list(journal.lines(first.id, owner="ada"))
            assert any(line.stage == "finished" and line.record is not None for line in lines)
            outputs = gateway.front.assembly.surroundings.outputs
            assert outputs is not None
            kept = outputs.keep("The rest of a long output.", first.id, 1_000)
            assert kept is not None
            await client.responses.delete(first.id)
            with pytest.raises(ResourceFault):
                outputs.load(kept[0], first.id)
        left = list(journal.lines(first.id, owner="ada"))
        assert [line.stage for line in left] == [*(line.stage for line in lines), "deleted"]
        assert all(line.record is None for line in left[:-1])
        assert journal.verify() is None
    # The gateway has cleaned them.
    assert b"forty-two" not in files_of(tmp_path / "state")


async def test_deleting_a_response_that_waits_forgets_its_conversation(
    tmp_path: pathlib.Path, new_place: NewPlace
) -> None:
    play = [turn("I write.", calls=[call("write_file", "w", path="a.txt", content="one")])]
    settings: Any = {"ensembles": ("io",), "absent": "defer", "confirmer": DeferredConfirmer(), "recorded": True}
    async with storing(tmp_path, play, place=new_place(), **settings) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="Go.")
        assert first.status == "incomplete"
        store = PausedStore(gateway.database)
        assert [one.identifier for one in store.all()] == [first.id]
        await client.responses.delete(first.id)
        assert store.all() == ()


async def test_deleting_another_look_at_a_response_that_waits_keeps_its_conversation(
    tmp_path: pathlib.Path, new_place: NewPlace
) -> None:
    play = [turn("I write.", calls=[call("write_file", "w", path="a.txt", content="one")]), turn("Done.", expect=["w"])]
    settings: Any = {"ensembles": ("io",), "absent": "defer", "confirmer": DeferredConfirmer(), "recorded": True}
    async with storing(tmp_path, play, place=new_place(), **settings) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="Go.")
        look = await client.responses.create(model="any", input=[], previous_response_id=first.id)
        assert (first.status, look.status) == ("incomplete", "incomplete")
        await client.responses.delete(look.id)
        store = PausedStore(gateway.database)
        (paused,) = store.all()
        store.answer(paused.identifier, {one.invocation: Approve() for one in paused.unanswered}, owner=paused.owner)
        done = await client.responses.create(model="any", input=[], previous_response_id=first.id)
        assert (done.status, done.output_text) == ("completed", "Done.")
        # It waits no more: what the journal has of it is also of the last one.
        journal: Any = gateway.front.assembly.execution.reporter.recorder
        assert any(line.stage == "finished" and line.record is not None for line in journal.lines(first.id))
        await client.responses.delete(done.id)
        assert all(line.record is None for line in journal.lines(first.id) if line.stage != "deleted")


async def test_without_a_store_all_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, without=True) as gateway, gateway.client() as client:
        first = await client.responses.create(model="any", input="One.", store=True)
        assert first.to_dict()["store"] is False
        for name, value in (("previous_response_id", first.id), ("conversation", "conv_1"), ("background", True)):
            with pytest.raises(openai.BadRequestError, match=f"so {name}"):
                await client.responses.create(model="any", input="Hi.", extra_body={name: value})
        with pytest.raises(openai.NotFoundError, match="Unknown route"):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError, match="Unknown route"):
            await client.conversations.create()
        assert not (gateway.state / "caller-keys.sqlite3").exists()
    assert SECRET
