"""Stored conversations, with the official client: their items, their lock, and what a failed response leaves."""

import dataclasses
import pathlib
import random
import threading
from typing import Any

import openai
import pytest
from frozendict import frozendict

from ripieno.canisters import AssistantCanister
from ripieno.canisters.events import Event
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import application
from ripieno.servers.gateway.endpoint import Endpoint
from tests.servers.gateway.stored.test_background import ended, gated
from tests.support.gateways import KINDS, MODEL, says
from tests.support.postgresql import NewPlace
from tests.support.stores import CHAT, SECRET, storing

RESPONSES = KINDS["openai-responses"].protocol


def message(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


async def test_a_conversation_gains_its_items_at_the_end(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    async with storing(tmp_path, place=new_place()) as gateway, gateway.client() as client:
        first: Any = {"type": "message", "role": "user", "content": "Before."}
        conversation = await client.conversations.create(items=[first], metadata={"topic": "tests"})
        assert (conversation.object, conversation.metadata) == ("conversation", {"topic": "tests"})
        one = await client.responses.create(model="any", input="One.", conversation=conversation.id)
        assert one.conversation is not None
        assert one.conversation.id == conversation.id
        two = await client.responses.create(model="any", input="Two.", conversation={"id": conversation.id})
        assert two.output_text == "I read Before. One. Two."
        items = [item async for item in client.conversations.items.list(conversation.id, order="asc", limit=2)]
        said = [item.to_dict()["content"][0]["text"] for item in items]  # type: ignore[index]
        assert said == ["Before.", "One.", "I read Before. One.", "Two.", "I read Before. One. Two."]
        await client.conversations.items.delete(items[0].id or "", conversation_id=conversation.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.retrieve(items[0].id or "", conversation_id=conversation.id)
        kept = await client.conversations.items.retrieve(items[1].id or "", conversation_id=conversation.id)
        assert kept == items[1]
        added = await client.conversations.items.create(conversation.id, items=[first])
        assert len(added.data) == 1
        changed = await client.conversations.update(conversation.id, metadata={"topic": "more"})
        assert changed == await client.conversations.retrieve(conversation.id)
        assert changed.metadata == {"topic": "more"}
        assert (await client.conversations.delete(conversation.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="any", input="Three.", conversation=conversation.id)
        assert gateway.rows()["conversation_items"] == 0


async def test_one_response_at_a_time_holds_a_conversation(tmp_path: pathlib.Path) -> None:
    async with gated(tmp_path) as (gateway, gate), gateway.client() as client:
        conversation = await client.conversations.create()
        running = await client.responses.create(
            model="any", input="One.", conversation=conversation.id, background=True
        )
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="any", input="Two.", conversation=conversation.id)
        assert caught.value.code == "conversation_locked"
        assert (await client.responses.cancel(running.id)).status == "cancelled"
        # It gained nothing, and another one may begin.
        assert (await client.conversations.items.list(conversation.id)).data == []
        gate.go.set()
        stream = await client.responses.create(model="any", input="Two.", conversation=conversation.id, stream=True)
        assert [one.type async for one in stream][-1] == "response.completed"
        assert len((await client.conversations.items.list(conversation.id)).data) == 2


async def test_a_request_that_fails_leaves_its_conversation(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, map_only="small") as gateway, gateway.client() as client:
        conversation = await client.conversations.create()
        for _ in range(2):
            with pytest.raises(openai.NotFoundError, match="model"):
                await client.responses.create(model="other", input="One.", conversation=conversation.id)
            with pytest.raises(openai.BadRequestError, match="truncation"):
                await client.responses.create(
                    model="small", input="One.", conversation=conversation.id, truncation="auto"
                )
        await client.responses.create(model="small", input="One.", conversation=conversation.id)
        assert [len(one.canisters) for one in gateway.backend.asked] == [1]
        for body, words in (
            ({"items": 7}, "items is a list"),
            ({"items": [{}] * 21}, "at most 20"),
            ({"metadata": {"a": 1}}, "metadata has at most 16 texts"),
            ({"metadata": {f"{number}": "" for number in range(17)}}, "metadata has at most 16 texts"),
            ({"metadata": {"ä" * 65: ""}}, "names of at most 64 characters"),
            ({"metadata": {"a": "ä" * 513}}, "at most 512 characters"),
        ):
            with pytest.raises(openai.BadRequestError, match=words):
                await client.conversations.create(extra_body=body)
        most = {f"{number:ä>64}": "ä" * 512 for number in range(16)}
        assert (await client.conversations.create(metadata=most)).metadata == most


async def test_clients_choose_any_identifiers(tmp_path: pathlib.Path, new_place: NewPlace) -> None:
    tools: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    settings: Any = {"ensembles": ("io",), "recorded": True}
    async with storing(tmp_path, place=new_place(), **settings) as gateway, gateway.client() as client:
        for name in ("\0", "ä\n", "%", " ", random.Random(1).randbytes(9_000).hex()):
            said: Any = {**message("Hi."), "id": name}
            conversation = await client.conversations.create(items=[said])
            assert [one.id for one in (await client.conversations.items.list(conversation.id)).data] == [name]
            refer: Any = [{"type": "item_reference", "id": name}]
            done = await client.responses.create(model="any", input=refer, conversation=conversation.id)
            assert done.output_text == "I read Hi. Hi."
            await client.conversations.items.create(conversation.id, items=[said, message("More.")])
            # It is there once.
            assert len((await client.conversations.items.list(conversation.id)).data) == 3
            assert await client.conversations.items.retrieve(name, conversation_id=conversation.id)
            await client.conversations.items.delete(name, conversation_id=conversation.id)
            with pytest.raises(openai.NotFoundError, match="no item"):
                await client.responses.create(model="any", input=refer)
            called: Any = [
                message("Look."),
                {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": name, "output": "nothing"},
            ]
            for background in (False, True):
                made = await client.responses.create(model="any", input=called, tools=tools, background=background)
                assert (await ended(client, made)).output_text == "I read Look."
            with pytest.raises(openai.BadRequestError, match="not stored here"):
                await client.responses.create(model="any", input="Hi.", previous_response_id=name)
            with pytest.raises(openai.NotFoundError, match="no conversation"):
                await client.responses.create(model="any", input="Hi.", conversation=name)


# Limits, which count a conversation as a part of the request that continues it.


def fine(_: Asked) -> list[Event]:
    return says(CHAT, [AssistantCanister.of("Fine.")])


async def test_a_conversation_shares_the_budget_of_memory(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path, fine, memory_bytes=12 * 60_000) as gateway, gateway.client() as client:
        conversation = await client.conversations.create(items=[message("a" * 40_000)])

        async def respond() -> Any:
            return await client.responses.create(model="any", input="One.", conversation=conversation.id, store=True)

        async def add(length: int) -> Any:
            return await client.conversations.items.create(conversation.id, items=[message("b" * length)])

        added = await add(40_000)
        with gateway.watched() as statements:
            for asking in (
                respond(),
                client.conversations.items.list(conversation.id),
                client.conversations.items.retrieve(added.data[0].id or "", conversation_id=conversation.id),
            ):
                with pytest.raises(openai.InternalServerError) as caught:
                    await asking
                assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
        # Nothing was read for what was refused.
        assert [one for one in statements if "conversation_items" in one]
        assert not [one for one in statements if "body FROM conversation_items" in one]
        for asking in (add(70_000), client.conversations.create(items=[message("c" * 70_000)])):
            with pytest.raises(openai.InternalServerError, match="too little memory"):
                await asking
        await client.conversations.items.delete(added.data[0].id or "", conversation_id=conversation.id)
        # Nothing is held.
        for _ in range(2):
            assert (await respond()).output_text == "Fine."
            assert (await client.conversations.items.list(conversation.id)).data


async def test_a_long_conversation_is_translated_in_a_thread(tmp_path: pathlib.Path) -> None:
    in_loop: list[bool] = []

    def parse(native: Any) -> Asked:
        in_loop.append(threading.current_thread() is threading.main_thread())
        return RESPONSES.parse(native)

    noted = dataclasses.replace(RESPONSES, parse=parse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "protocols_of", lambda _: [noted])
        async with storing(tmp_path) as gateway, gateway.client() as client:
            conversation = await client.conversations.create(items=[message("a" * 100_000)])
            await client.responses.create(model="any", input="One.", conversation=conversation.id)
            first = await client.responses.create(model="any", input="a" * 100_000)
            await client.responses.create(model="any", input="Two.", previous_response_id=first.id)
            assert in_loop == [False] * 3
            # As a worker answers.
            settings = GatewayDescriptor(map=frozendict({"*": f"back/{MODEL}"}), secret=SECRET, store=StoreDescriptor())
            serving = application.serving_of(gateway.front.assembly, settings, clock=gateway.clock)
            assert serving.runs is not None
            library = serving.runs.library
            native = {"model": "any", "input": "Three.", "conversation": conversation.id, "background": True}
            with serving.budget.reserve() as reservation:
                _, request = await library.read(native, "ada", reservation)
            assert request is not None
            response = {"id": request.identifier, "object": "response", "status": "queued"}
            await library.run(lambda: library.queue(request, response, route="/v1/responses", streamed=False))
            row = await library.load("ada", request.identifier)
            assert row is not None
            taken = await library.run(library.take, row)
            assert taken is not None
            await Endpoint(noted, serving).conduct(row, taken)
            assert (await client.responses.retrieve(request.identifier)).output_text.endswith(" Three.")
            assert in_loop == [False] * 4
