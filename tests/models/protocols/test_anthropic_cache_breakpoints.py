"""Where a provider's cache is told to end: at four places at most, and what lies before them stays the same."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    OpaqueContent,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.conducting.history import HistoryStrategy, drop_oldest, sliding_window, summarize
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import freeze, is_list, is_table
from ripieno.models.protocols.anthropic import PROTOCOL
from tests.conducting.history.test_strategies_laws import flat, long_conversation
from tests.support.scripted_models import says, scripted
from tests.support.wire_requests import NO_TOOLS, OFFER, write

MARK = {"type": "ephemeral"}


def marked(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if is_table(value):
        if "cache_control" in value:
            assert value["cache_control"] == MARK
            yield path
        for name, one in value.items():
            yield from marked(one, (*path, name))
    elif is_list(value):
        for index, one in enumerate(value):
            yield from marked(one, (*path, index))


def places(body: bytes) -> list[tuple[Any, ...]]:
    return sorted(marked(json.loads(body)), key=str)


def test_the_tools_the_system_prompt_and_the_last_two_of_the_user_are_marked() -> None:
    canisters = [SupervisorCanister.of("Be brief."), *flat(long_conversation(6))[1:]]
    body = json.loads(write(PROTOCOL, canisters, offer=OFFER))
    users = [number for number, one in enumerate(body["messages"]) if one["role"] == "user"][-2:]
    assert places(write(PROTOCOL, canisters, offer=OFFER)) == sorted(
        [
            ("system", 0),
            ("tools", len(body["tools"]) - 1),
            *[("messages", one, "content", len(body["messages"][one]["content"]) - 1) for one in users],
        ],
        key=str,
    )


def test_what_is_not_there_has_no_mark() -> None:
    said: list[Canister] = [UserCanister.of("Hi.")]
    assert places(write(PROTOCOL, said)) == [("messages", 0, "content", 0)]
    # A word of the supervisor's, and of the assistant at the end, are no turns of the user's.
    said += [AssistantCanister.of("Hello."), SupervisorCanister.of("Shorter."), AssistantCanister.of("Hm")]
    assert places(write(PROTOCOL, said)) == [("messages", 0, "content", 0)]
    # Nor is a sealed thought.
    thought = OpaqueContent(protocol="anthropic", kind="thinking", data=freeze({"type": "thinking", "thinking": "t"}))
    said = [*said[:1], AssistantCanister(content=(TextualContent(text="Well."), thought)), UserCanister.of("And?")]
    assert places(write(PROTOCOL, said)) == [("messages", 0, "content", 0), ("messages", 2, "content", 0)]


def test_a_provider_that_wants_none_gets_none() -> None:
    canisters = flat(long_conversation(3))
    plain = write(PROTOCOL, canisters, offer=OFFER, cache_breakpoints=False)
    assert places(plain) == []
    assert write(PROTOCOL, canisters, offer=OFFER).replace(b',"cache_control":{"type":"ephemeral"}', b"") == plain


def test_a_mark_of_a_clients_is_not_passed_on() -> None:
    block = {"type": "search_result", "title": "T", "cache_control": MARK}
    read = PROTOCOL.parse({"model": "m", "messages": [{"role": "user", "content": [block] * 3}]}).canisters
    assert len(places(write(PROTOCOL, read))) == 1
    text = 'She said: ,"cache_control":{"type":"ephemeral"} }]} {"role":"user"'
    assert len(places(write(PROTOCOL, [UserCanister.of(text)]))) == 1


@pytest.mark.parametrize("tools", [NO_TOOLS, OFFER], ids=["alone", "with tools"])
@pytest.mark.parametrize(
    "strategy",
    [drop_oldest(3000), sliding_window(exchanges=10), summarize(scripted(says("They looked at files.")), 3000)],
    ids=["drop-oldest", "sliding-window", "summarize"],
)
async def test_what_is_marked_is_found_again_by_the_next_request(strategy: HistoryStrategy, tools: Offer) -> None:
    memory: dict[object, Any] = {}
    kept: dict[object, Any] = {}
    canisters: tuple[Canister, ...] = ()
    before: tuple[Canister, ...] = ()
    ends: list[bytes] = []
    broken = found = cuts = 0
    for number, part in enumerate(long_conversation(60)):
        if number % 2:
            shown = await strategy.show(canisters, memory=memory)
            body = write(PROTOCOL, shown.canisters, offer=tools, memory=kept)
            assert body == write(PROTOCOL, shown.canisters, offer=tools)
            assert len(places(body)) <= 4
            # What comes before each mark, without the marks before it.
            pieces = body[: body.index(b'"system"')].split(b',"cache_control":{"type":"ephemeral"}')
            now = [b"".join(pieces[: one + 1]) for one in range(len(pieces) - 1)]
            if before and shown.canisters[: len(before)] == before:
                found += ends[-1] in now
            elif before:
                broken += 1
            ends, before, cuts = now, shown.canisters, shown.cuts
        canisters += tuple(part)
    assert broken == cuts > 0
    assert found == 60 - 1 - broken
