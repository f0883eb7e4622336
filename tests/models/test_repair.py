"""Conversations in any disorder, over any wires, become such as every wire takes; those in order stay what they are."""

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

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
from ripieno.exceptions import InputError, ProviderFailure
from ripieno.models import Protocol
from ripieno.models.model import requirements_of
from ripieno.models.protocol import Identifiers, Native
from ripieno.models.repair import Requirements, repair
from tests.models.protocols.test_wires_golden import natives_of
from tests.support.golden_wires import ANSWERS, PROTOCOLS, Scenario
from tests.support.json_strategies import texts
from tests.support.wire_requests import write
from tests.support.wire_rules import CHECKERS

LOOSE = Requirements()
STRICT = Requirements(
    names=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,8}"), identifiers=re.compile(r"[A-Za-z0-9]{9}"), user_first=True
)

_identifiers = st.sampled_from(["a", "b", "functions.get:0", "", "x" * 90, "abcdefghi", "\n", "é"])
_names = st.sampled_from(["read", "a.b.c", "", "0", "much_longer_than_that", "ä b"])
_canisters: st.SearchStrategy[Canister] = st.one_of(
    st.builds(UserCanister.of, st.just("user")),
    st.builds(AssistantCanister.of, st.just("assistant")),
    st.builds(SupervisorCanister.of, st.just("supervisor")),
    st.builds(InvocationCanister, identifier=_identifiers, name=_names),
    st.builds(ResultCanister, invocation_id=_identifiers, content=st.builds(lambda n: (text(f"{n}"),), st.integers())),
)
_conversations = st.lists(_canisters, max_size=12)
_requirements = st.sampled_from([LOOSE, STRICT])


def text(words: str) -> TextualContent:
    return TextualContent(text=words)


def complaints(canisters: Sequence[Canister], requirements: Requirements) -> list[str]:
    """What a strict server would say: written without a look at how the room mends."""
    said: list[str] = []
    spoken = [one for one in canisters if not isinstance(one, SupervisorCanister)]
    if requirements.user_first and spoken and isinstance(spoken[0], AssistantCanister | InvocationCanister):
        said.append("the assistant began")
    calls = [one for one in canisters if isinstance(one, InvocationCanister)]
    if len({one.identifier for one in calls}) != len(calls):
        said.append("doubled identifiers")
    for place, canister in enumerate(canisters):
        if isinstance(canister, ResultCanister):
            if [one.identifier for one in calls].count(canister.invocation_id) != 1:
                said.append(f"result {place} has no call")
        elif isinstance(canister, InvocationCanister):
            if not requirements.names.fullmatch(canister.name):
                said.append(f"name {canister.name!r}")
            if not requirements.identifiers.fullmatch(canister.identifier):
                said.append(f"identifier {canister.identifier!r}")
            said += [f"{canister.identifier}: {why}" for why in _answers(canisters, place)]
    return said


def _answers(canisters: Sequence[Canister], place: int) -> list[str]:
    """What is wrong with the results of the call at that place."""
    call: Any = canisters[place]
    rest = canisters[place + 1 :]
    while rest and isinstance(rest[0], AssistantCanister | InvocationCanister):
        rest = rest[1:]
    count = 0
    for one in rest:
        if isinstance(one, AssistantCanister | InvocationCanister) or (
            isinstance(one, SupervisorCanister) and not count
        ):
            break
        count += isinstance(one, ResultCanister) and one.invocation_id == call.identifier
    everywhere = sum(isinstance(one, ResultCanister) and one.invocation_id == call.identifier for one in canisters)
    return [] if (count, everywhere) == (1, 1) else [f"{count} results at their place, {everywhere} in all"]


@given(_conversations, _requirements)
def test_whatever_was_said_a_strict_server_takes_it(canisters: list[Canister], requirements: Requirements) -> None:
    repaired = repair(canisters, requirements)
    assert complaints(repaired.canisters, requirements) == []
    # Only what was wrong is touched, and it is said.
    assert (repaired.canisters is canisters) == (complaints(canisters, requirements) == [])
    assert bool(repaired.repairs) == (repaired.canisters is not canisters)


@given(_conversations, _requirements)
def test_mending_is_done_once_and_always_the_same(canisters: list[Canister], requirements: Requirements) -> None:
    repaired = repair(canisters, requirements).canisters
    assert repair(canisters, requirements).canisters == repaired
    assert repair(repaired, requirements).canisters is repaired


@given(_conversations, _requirements)
def test_nothing_that_was_said_is_lost_or_put_in_another_order(
    canisters: list[Canister], requirements: Requirements
) -> None:
    def said(ones: Sequence[Canister]) -> list[str]:
        return [type(one).__name__ for one in ones if not isinstance(one, ResultCanister)]

    repaired = said(repair(canisters, requirements).canisters)
    if len(repaired) > len(said(canisters)):
        # Something stands before the assistant's first word.
        del repaired[next(place for place, one in enumerate(repaired) if one != "SupervisorCanister")]
    assert repaired == said(canisters)


@given(_conversations, _conversations, _requirements)
def test_what_is_remembered_changes_nothing(
    canisters: list[Canister], more: list[Canister], requirements: Requirements
) -> None:
    memory: dict[object, Any] = {}
    repair(canisters, requirements, memory)
    grown = [*canisters, *more]
    assert repair(grown, requirements, memory) == repair(grown, requirements)
    # Another conversation under the same memory is not taken for this one.
    assert repair(more, requirements, memory) == repair(more, requirements)


def test_the_same_call_stays_the_same_object() -> None:
    memory: dict[object, Any] = {}
    canisters: list[Canister] = [InvocationCanister(identifier="a.b", name="read"), ResultCanister(invocation_id="a.b")]
    first = repair(canisters, STRICT, memory).canisters
    second = repair([*canisters, UserCanister.of("more")], STRICT, memory).canisters
    assert all(one is other for one, other in zip(first, second, strict=False))


def test_a_lost_result_says_that_nothing_is_known_and_a_late_one_comes_home() -> None:
    late = ResultCanister(invocation_id="late", content=(text("here"),))
    canisters: list[Canister] = [
        UserCanister.of("go"),
        InvocationCanister(identifier="lost", name="write"),
        InvocationCanister(identifier="late", name="read"),
        UserCanister.of("And?"),
        AssistantCanister.of("I go on."),
        late,
        ResultCanister(invocation_id="nobody's"),
    ]
    repaired = repair(canisters, LOOSE)
    lost = repaired.canisters[3]
    assert isinstance(lost, ResultCanister)
    assert lost.error is not None
    assert lost.error.category == "outcome_unknown"
    assert repaired.canisters[4] is late
    assert repaired.repairs == (
        "missing results added: 1",
        "results moved to their calls: 1",
        "results without a call left out: 1",
    )


def test_a_wire_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(InputError, match="No valid replacement was found"):
        repair((InvocationCanister(identifier="a", name="b"),), Requirements(identifiers=re.compile("never!")))


# Over wires: whatever was lost on the way, a conversation goes on over any other.

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
