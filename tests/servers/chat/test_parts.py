"""Parts of a conversation's messages: together they are all of them, and none begins in the middle of a turn."""

import pathlib
from collections.abc import Sequence

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
from ripieno.servers.chat.contents import message_of
from ripieno.servers.chat.parts import read_part
from tests.servers.chat.test_application import over_http
from tests.support.chats import assembled, chatting
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


async def test_a_long_conversation_comes_in_parts(tmp_path: pathlib.Path) -> None:
    many = [one for _ in range(300) for one in turn(1)]
    async with assembled(tmp_path, scripted(says())) as assembly:
        conversation = await assembly.conduct(Conversation.of([*many, UserCanister.of("Go.")]), owner="ada")
    path = f"/conversations/{conversation.identifier}"
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
