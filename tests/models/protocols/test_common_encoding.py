"""Encoded once: what canisters, invokers and runs keep of a request, and when they do not."""

import copy
import pickle
from collections.abc import Sequence
from typing import Any

from frozendict import frozendict
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as ANTHROPIC
from ripieno.models.protocols.common.encoding import KEPT
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.schemas import Schema
from tests.counts import count
from tests.models.protocols import wire_strategies
from tests.support.wire_requests import PATH, asked, both, write

CONVERSATION: tuple[Canister, ...] = (
    SupervisorCanister.of("Be brief."),
    UserCanister.of("Look."),
    AssistantCanister(
        content=(
            wire_strategies.opaque("openai-chat", "reasoning", reasoning_content="Hm.", extra_content={"a": 1}),
            TextualContent(text="I look."),
        )
    ),
    InvocationCanister(identifier="c1", name="read_file", arguments=frozendict(path="a"), raw='{ "path":"a" }'),
    ResultCanister(invocation_id="c1", content=(TextualContent(text="alpha"),)),
    DocumentCanister(content=(TextualContent(text="x"),), identifier="d"),
    UserCanister.of("And?"),
)


def fresh() -> tuple[Canister, ...]:
    """The conversation, never encoded: the kept pieces are no part of a canister's value."""
    canisters: tuple[Canister, ...] = pickle.loads(pickle.dumps(CONVERSATION))
    assert not any(hasattr(canister, "encoding") for canister in canisters)
    assert canisters == CONVERSATION
    return canisters


def kept(canisters: Sequence[Canister]) -> list[Any]:
    return [canister.encoding for canister in canisters if hasattr(canister, "encoding")]


@both
def test_a_canister_is_encoded_once(protocol: Protocol) -> None:
    canisters = fresh()
    body = write(protocol, canisters)
    pieces = kept(canisters)
    leading = protocol is not CHAT  # The leading supervisor stands in a key of its own there.
    assert len(pieces) == len(canisters) - leading
    assert write(protocol, canisters) == body
    assert all(one is other for one, other in zip(kept(canisters), pieces, strict=True))
    # What is added is encoded; what was there is not touched.
    longer = (*canisters, AssistantCanister.of("alpha"), UserCanister.of("Thanks."))
    write(protocol, longer)
    assert all(one is other for one, other in zip(kept(canisters), pieces, strict=True))
    # A result's piece has the name of its call in it, on a wire that wants it.
    assert all(key == protocol.name or key[0] == protocol.name for key, _ in pieces)
    assert all(type(data) is bytes for _, data in pieces)


def test_another_wire_and_another_capability_encode_anew() -> None:
    canisters = fresh()
    first = write(CHAT, canisters)
    assert b"Hm." not in first
    assert b'"extra_content":{"a":1}' in first
    pieces = kept(canisters)
    replayed = write(CHAT, canisters, reasoning_replay="always")
    assert b'"reasoning_content":"Hm."' in replayed
    assert [one is other for one, other in zip(kept(canisters), pieces, strict=True)] == [
        not isinstance(canister, AssistantCanister) for canister in canisters
    ]
    assert write(CHAT, canisters) == first
    over = write(ANTHROPIC, canisters)
    assert over == write(ANTHROPIC, fresh())
    assert write(CHAT, canisters) == first


def test_reasoning_returns_until_the_user_speaks_again() -> None:
    canisters = fresh()
    assert b"Hm." not in write(CHAT, canisters, reasoning_replay="turn")
    assert b"Hm." in write(CHAT, canisters[:5], reasoning_replay="turn")
    assert b"Hm." in write(CHAT, canisters[2:5], reasoning_replay="turn")
    assert b"Hm." not in write(CHAT, canisters[:5], reasoning_replay="never")


@both
def test_nothing_large_is_kept(protocol: Protocol) -> None:
    small, large = UserCanister.of("x" * (KEPT - 200)), UserCanister.of("x" * KEPT)
    bodies = [write(protocol, [small, large]) for _ in range(2)]
    assert bodies[0] == bodies[1]
    assert len(small.encoding[1]) <= KEPT
    assert not hasattr(large, "encoding")
    assert not hasattr(copy.copy(small), "encoding")
    assert not hasattr(copy.deepcopy(small), "encoding")


@both
def test_the_bytes_of_tools_are_the_same_in_every_turn(protocol: Protocol) -> None:
    ensembles = [
        Ensemble.of(name, [Definition(name=tool, schema=Schema.of(PATH)) for tool in tools], prefix=name)
        for name, tools in {"b": ["z", "a"], "a": ["m"]}.items()
    ]

    def tools_in(body: bytes) -> bytes:
        start = body.index(b'"tools":[')
        return body[start : body.index(b"]", body.rindex(b'"required"'))]

    offer = Offer.of(ensembles)
    first = tools_in(write(protocol, [UserCanister.of("Hi.")], offer=offer))
    assert tools_in(write(protocol, [UserCanister.of("Hello.")], offer=offer)) == first
    # Another offer of the same invokers encodes none of them again.
    again = Offer.of(ensembles)
    encodings = [invoker.encodings[protocol.name] for invoker in offer.invokers]
    assert tools_in(write(protocol, [UserCanister.of("Hi.")], offer=again)) == first
    assert all(one is invoker.encodings[protocol.name] for one, invoker in zip(encodings, again.invokers, strict=True))
    names = [tool.name for tool in asked(protocol, write(protocol, [], offer=offer)).tools]
    assert names == list(offer.names)


@both
@settings(max_examples=count(300))  # each prefix of a conversation is written twice
@given(canisters=wire_strategies.conversations(), rule=st.sampled_from(["never", "turn", "always"]))
def test_what_was_said_is_said_again_in_the_same_bytes(
    protocol: Protocol, canisters: tuple[Canister, ...], rule: str
) -> None:
    """A run's memory makes a request quicker, never different."""
    memory: dict[object, Any] = {}
    for end in range(1, len(canisters) + 1):
        fresh = pickle.loads(pickle.dumps(canisters[:end]))
        remembered = write(protocol, canisters[:end], memory=memory, reasoning_replay=rule)
        assert remembered == write(protocol, fresh, reasoning_replay=rule)
