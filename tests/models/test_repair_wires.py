"""A conversation that went over any wires goes on over any other, whatever was lost of it on the way."""

import functools
import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.events import collect
from ripieno.canisters.faults import Fault
from ripieno.exceptions import ProviderFailure
from ripieno.models import Protocol
from ripieno.models.model import requirements_of
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.repair import repair
from tests.models.protocols.test_wires_golden import natives_of
from tests.support.golden_wires import ANSWERS, PROTOCOLS, Scenario
from tests.support.json_strategies import texts
from tests.support.wire_requests import write
from tests.support.wire_rules import CHECKERS

TARGETS = [protocol for name, protocol in PROTOCOLS.items() if name in CHECKERS]
STREAMED = [scenario for scenario in ANSWERS if scenario.has("sse")]
#: Identifiers that servers really send, and some that none should.
_WILD = ["functions.read:0", "call/1", "chatcmpl-tool-" + "0" * 32, "", "toolu_01", "x" * 300]


@functools.cache
def _natives(protocol: str, name: str) -> Sequence[Native]:
    (found,) = [one for one in STREAMED if (one.protocol.name, one.name) == (protocol, name)]
    return natives_of([found.data("sse")])


def natives(scenario: Scenario) -> Sequence[Native]:
    return _natives(scenario.protocol.name, scenario.name)


def answer(scenario: Scenario, before: Sequence[Canister]) -> tuple[Canister, ...]:
    """What a golden answer adds to a conversation; nothing where it fails."""
    decoder = scenario.protocol.decoder("house", Identifiers(before))
    try:
        events = [event for native in natives(scenario) for event in decoder.feed(native)]
        return collect([*events, *decoder.finish()])
    except ProviderFailure:
        return ()


@st.composite
def histories(draw: st.DrawFn) -> list[Canister]:
    """A conversation over several wires, with calls renamed, results lost, moved and doubled."""
    said: list[Canister] = []
    if draw(st.booleans()):
        said.append(SupervisorCanister.of("Be brief."))
    if draw(st.integers(0, 9)):
        said.append(UserCanister.of("Begin."))
    for _ in range(draw(st.integers(1, 4))):
        added = list(answer(draw(st.sampled_from(STREAMED)), said))
        if not draw(st.integers(0, 3)):
            added = [_renamed(draw, one) for one in added]
        results: list[Canister] = [
            draw(_results(one.identifier)) for one in added if isinstance(one, InvocationCanister)
        ]
        if not draw(st.integers(0, 4)):
            results = draw(st.permutations(results))[: draw(st.integers(0, len(results)))]
        said += [*added, *results]
        if draw(st.booleans()):
            said.append(UserCanister.of(draw(texts)))
    if not draw(st.integers(0, 4)):
        said = draw(st.permutations(said))
    if not draw(st.integers(0, 4)):
        said += draw(st.lists(st.sampled_from(said), max_size=3)) if said else []
    return said


def _renamed(draw: st.DrawFn, canister: Canister) -> Canister:
    if not isinstance(canister, InvocationCanister):
        return canister
    name = draw(st.sampled_from([canister.name, "mcp.server/tool", "", "n" * 100]))
    return InvocationCanister(identifier=draw(st.sampled_from(_WILD)), name=name, arguments=canister.arguments)


@st.composite
def _results(draw: st.DrawFn, identifier: str) -> ResultCanister:
    fault = draw(st.none() | st.builds(Fault, category=st.just("execution"), message=texts))
    content = tuple(draw(st.lists(st.builds(TextualContent, text=texts), max_size=2)))
    return ResultCanister(invocation_id=identifier, content=content, error=fault)


def speaks(canister: Canister) -> bool:
    if isinstance(canister, UserCanister | AssistantCanister):
        return any(isinstance(one, TextualContent) and one.text.strip() for one in canister.content)
    return isinstance(canister, InvocationCanister)


def sent(canisters: Sequence[Canister], target: Protocol) -> bytes:
    """The request for a conversation, as a model of that wire would get it."""
    return write(target, repair(canisters, requirements_of(target, {})).canisters)


@given(canisters=histories())
def test_any_history_is_taken_by_a_strict_server_of_any_wire(canisters: list[Canister]) -> None:
    if not any(map(speaks, canisters)):
        return  # There is nothing to be sent.
    for target in TARGETS:
        body = sent(canisters, target)
        assert CHECKERS[target.name](json.loads(body)) == [], target.name
        # Once more is the same.
        assert sent(canisters, target) == body


def test_there_is_a_checker_for_every_wire() -> None:
    assert {protocol.name for protocol in TARGETS} == PROTOCOLS.keys() - {"prompted"}


@pytest.mark.parametrize("target", TARGETS, ids=lambda protocol: protocol.name)
def test_the_checkers_find_what_is_wrong(target: Protocol) -> None:
    call = InvocationCanister(identifier="a", name="read")
    result = ResultCanister(invocation_id="a", content=(TextualContent(text="done"),))
    begin, again = UserCanister.of("Begin."), UserCanister.of("Again.")
    check = CHECKERS[target.name]
    good = [begin, call, result, again]
    assert check(json.loads(write(target, good))) == []
    for bad in (
        [begin, call, again],
        [begin, result, again],
        [begin, InvocationCanister(identifier="a", name="no name!"), result],
    ):
        assert check(json.loads(write(target, bad))), bad
    named = re.sub(rb'"read"', b'"re ad"', write(target, good))
    assert check(json.loads(named))
