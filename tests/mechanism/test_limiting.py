"""Budgets: what a run may still do, and the words for what it may not."""

import dataclasses

import pytest
from frozendict import frozendict

from ripieno.canisters import ResultCanister
from ripieno.contents import TextualContent
from ripieno.controls import Limits
from ripieno.conversations import NO_USAGE, Usage
from ripieno.ensembles import Invoker
from ripieno.limiting import Budget
from tests.mechanism.players import ensemble, invoke, tool


def invoker(**policy: object) -> Invoker:
    return ensemble(tool("look", **policy)).access_invoker("look")


def said(text: str) -> ResultCanister:
    return ResultCanister(invocation_id="a", content=(TextualContent(text=text),))


def test_turns_are_counted() -> None:
    budget = Budget(Limits(turns=2))
    assert [budget.admits_turn() for _ in range(4)] == [True, True, False, False]
    assert (budget.turns, budget.exhausted) == (2, "2 turns")


def test_calls_are_counted_when_they_are_started() -> None:
    budget, look = Budget(Limits(calls=1)), invoker()
    assert budget.refuse(invoke("look"), look, budget.seconds) is None
    assert budget.refuse(invoke("look"), look, budget.seconds) is None
    budget.calls += 1
    fault = budget.refuse(invoke("look"), look, budget.seconds)
    assert fault is not None
    assert fault.category == "limit"
    assert fault.message == "The call was not run: this run is limited to 1 calls."
    assert fault.details == {"limit": "1 calls"}
    assert not fault.recoverable
    assert budget.exhausted == "1 calls"
    assert not budget.admits_turn()


def test_the_time_is_limited() -> None:
    budget = Budget(Limits(wall=0.0))
    assert budget.seconds == 0.0
    fault = budget.refuse(invoke("look"), invoker(), budget.seconds)
    assert fault is not None
    assert "limited to 0 s" in fault.message
    assert not budget.admits_turn()
    assert 599 < Budget(Limits()).seconds <= 600


def test_tokens_are_limited_when_they_are_known() -> None:
    budget = Budget(Limits(tokens=10))
    assert budget.admits_turn()
    budget.spend(NO_USAGE)
    budget.spend(Usage(input_tokens=6, output_tokens=3))
    assert budget.admits_turn()
    budget.spend(Usage(output_tokens=1))
    assert not budget.admits_turn()
    assert budget.exhausted == "10 tokens"


def test_the_same_call_with_the_same_result_is_refused_at_last() -> None:
    budget, look = Budget(Limits(repeats=3)), invoker()
    call = invoke("look", path="x")
    for _ in range(3):
        assert budget.refuse(call, look, budget.seconds) is None
        budget.note(call, said("nothing"))
    assert budget.refuse(invoke("look", path="y"), look, budget.seconds) is None
    for _ in range(2):
        fault = budget.refuse(call, look, budget.seconds)
        assert fault is not None
        assert fault.details == {"limit": "3 times the same call with the same result"}


def test_another_result_begins_the_count_again() -> None:
    budget, look = Budget(Limits(repeats=2)), invoker()
    call = invoke("look")
    for text in ("a", "b", "a", "a"):
        assert budget.refuse(call, look, budget.seconds) is None
        budget.note(call, said(text))
    assert budget.refuse(call, look, budget.seconds) is not None


def test_an_invoker_may_allow_more_repetitions() -> None:
    budget, poll = Budget(Limits(repeats=1)), invoker(repeats=3)
    for _ in range(3):
        assert budget.refuse(invoke("look"), poll, budget.seconds) is None
        budget.note(invoke("look"), said("wait"))
    assert budget.refuse(invoke("look"), poll, budget.seconds) is not None


def test_the_order_of_arguments_makes_no_other_call() -> None:
    budget, look = Budget(Limits(repeats=1)), invoker()
    budget.note(invoke("look", a=1, b=[2]), said("x"))
    assert budget.refuse(invoke("look", b=[2], a=1), look, budget.seconds) is not None


def test_arguments_made_by_hand_may_have_lists_in_them() -> None:
    budget, look = Budget(Limits(repeats=1)), invoker()
    call = dataclasses.replace(invoke("look"), arguments=frozendict({"paths": ["a"]}))
    assert budget.refuse(call, look, budget.seconds) is None
    budget.note(call, said("x"))
    assert budget.refuse(invoke("look", paths=["a"]), look, budget.seconds) is not None


@pytest.mark.parametrize("limits", [Limits(turns=0), Limits(wall=0), Limits(tokens=0)])
def test_no_limit_raises(limits: Limits) -> None:
    budget = Budget(limits)
    assert not budget.admits_turn()
    assert budget.turns == 0
