"""Conversations in any disorder become such as every wire takes, and those in order stay what they are."""

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
from ripieno.exceptions import InputError
from ripieno.models.repair import Requirements, repair

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
