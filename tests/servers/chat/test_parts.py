"""Parts of a conversation's messages: together they are all of them, and none begins in the middle of a turn."""

import pathlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from ripieno.exceptions import SerializationInvalidity
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.parts import AllMessages, read_part
from tests.servers.chat.test_application import over_http
from tests.support.chats import Reader, assembled, chatting
from tests.support.scripted_models import says, scripted


def turn(calls: int) -> Sequence[Canister]:
    """A question, and an answer with so many calls, whose results follow."""
    names = [str(number) for number in range(calls)]
    return [
        UserCanister.of("Go."),
        AssistantCanister.of("I look."),
        *(InvocationCanister(identifier=name, name="look") for name in names),
        *(ResultCanister(invocation_id=name) for name in names),
        AssistantCanister.of("Done."),
    ]


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 9))
async def test_parts_are_all_messages_and_begin_with_turns(calls: list[int], limit: int) -> None:
    canisters = tuple(one for count in calls for one in turn(count))
    found: list[object] = []
    place: int | None = None
    while place != 0:
        part = await read_part(canisters, before=place, limit=limit)
        assert len(part["messages"]) >= min(limit, len(canisters) if place is None else place)
        calls_here = {one["identifier"] for one in part["messages"] if one["type"] == "invocation"}
        assert all(one["invocation_id"] in calls_here for one in part["messages"] if one["type"] == "result")
        found[:0] = part["messages"]
        place = part["place"]
    assert found == [message_of(one) for one in canisters]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=6))
def test_the_messages_of_a_conversation_that_goes_on_and_back(changes: list[tuple[int, int]]) -> None:
    messages, canisters = AllMessages(), list[Canister]()
    for kept, calls in changes:
        canisters = [*canisters[:kept], *turn(calls)]
        assert messages.of(canisters) == [message_of(one) for one in canisters]


@pytest.fixture
async def long(tmp_path: pathlib.Path) -> Conversation:
    """A conversation of 1,502 messages in a journal."""
    many = [one for _ in range(300) for one in turn(1)]
    async with assembled(tmp_path, scripted(says())) as assembly:
        return await assembly.conduct(Conversation.of([*many, UserCanister.of("Go.")]), owner="ada")


async def test_a_long_conversation_comes_in_parts(tmp_path: pathlib.Path, long: Conversation) -> None:
    path = f"/conversations/{long.identifier}"
    async with chatting(tmp_path, scripted(says())) as chat, over_http(chat) as one:
        whole = (await one.get(path)).json()
        assert (len(whole["messages"]), whole["place"]) == (1502, 0)
        newest = (await one.get(f"{path}?limit=100")).json()
        found = newest["messages"]
        while newest["place"]:
            newest = (await one.get(f"{path}/messages?before={newest['place']}&limit=9999")).json()
            assert 500 <= len(newest["messages"]) <= 505 or newest["place"] == 0
            found = newest["messages"] + found
        assert found == whole["messages"]
        assert (await one.get(f"{path}/messages")).status_code == 400
        assert (await one.get(f"{path}?limit=-1")).status_code == 400
        assert (await one.get(f"{path}/messages?before=9", headers={"x-user": "bob"})).status_code == 404


async def test_what_is_shown_of_a_long_conversation_needs_only_its_end(
    tmp_path: pathlib.Path, long: Conversation
) -> None:
    name, messages = long.identifier, [message_of(one) for one in long.canisters]
    async with chatting(tmp_path, scripted(says("Once more."))) as chat:
        query = "UPDATE lines SET body = '{\"version\": 99}' WHERE stage = 'said' AND place = 9"
        with chat.journal.database.writing("changed") as connection:
            connection.execute(query)
        part = await chat.snapshot("ada", name, limit=100)
        assert part["messages"] == messages[part["place"] :]
        assert part["position"] == await chat.position("ada", name)
        assert not await chat.running("ada", name)
        # What needs all messages reads them.
        with pytest.raises(SerializationInvalidity):
            await chat.messages("ada", name, before=part["place"], limit=50)
        with pytest.raises(SerializationInvalidity):
            await chat.say("ada", name, UserCanister.of("And now?"))


async def test_a_long_conversation_of_which_the_end_was_shown_goes_on(
    tmp_path: pathlib.Path, long: Conversation
) -> None:
    name, messages = long.identifier, [message_of(one) for one in long.canisters]
    async with chatting(tmp_path, scripted(says("Once more."))) as chat:
        part = await chat.snapshot("ada", name, limit=5)
        assert (await chat.snapshot("ada", name, limit=300))["messages"][-300:] == messages[-300:]
        said = await chat.say("ada", name, UserCanister.of("And now?"), at=part["position"])
        assert said.canisters[:-1] == long.canisters
        await Reader(chat, "ada", name, part["position"]).until("ConductEnded")
    async with chatting(tmp_path, scripted()) as chat:
        part = await chat.snapshot("ada", name, limit=5)
        assert part["tokens"] == {"input": said.usage.input_tokens, "output": said.usage.output_tokens}
        whole = (await chat.snapshot("ada", name))["messages"]
        assert (whole[:1502], len(whole)) == (messages, 1504)
