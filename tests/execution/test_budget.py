"""Budgets of runs: turns, calls, seconds, tokens, repetitions and cycles."""

import dataclasses
from typing import Any

import pytest
from frozendict import frozendict
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canisters import InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.controls import Limits
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Invoker
from ripieno.execution.budget import Budget
from tests.support.scripted_models import ensemble, invoke, tool


def invoker(**policy: Any) -> Invoker:
    return ensemble(tool("look", **policy)).access_invoker("look")


def refused(budget: Budget, call: InvocationCanister, look: Invoker) -> Fault:
    fault = budget.refuse(call, look, budget.seconds)
    assert fault is not None
    return fault


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
    fault = refused(budget, invoke("look"), look)
    message = "The call was not run: this run is limited to 1 calls."
    assert (fault.category, fault.message, fault.recoverable) == ("limit", message, False)
    assert fault.details == {"limit": "1 calls"}
    assert budget.exhausted == "1 calls"
    assert not budget.admits_turn()


def test_the_time_is_limited() -> None:
    budget = Budget(Limits(wall=0.0))
    assert budget.seconds == 0.0
    assert not budget.admits_turn()
    assert "limited to 0 s" in refused(budget, invoke("look"), invoker()).message
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
        assert refused(budget, call, look).details == {"limit": "3 times the same call with the same result"}


def test_an_invoker_may_allow_more_repetitions() -> None:
    budget, poll = Budget(Limits(repeats=1)), invoker(repeats=3)
    for _ in range(3):
        assert budget.refuse(invoke("look"), poll, budget.seconds) is None
        budget.note(invoke("look"), said("wait"))
    refused(budget, invoke("look"), poll)


def test_the_order_of_arguments_makes_no_other_call() -> None:
    budget, look = Budget(Limits(repeats=1)), invoker()
    budget.note(invoke("look", a=1, b=[2]), said("x"))
    refused(budget, invoke("look", b=[2], a=1), look)


def test_arguments_made_by_hand_may_have_lists_in_them() -> None:
    budget, look = Budget(Limits(repeats=1)), invoker()
    call = dataclasses.replace(invoke("look"), arguments=frozendict({"paths": ["a"]}))
    assert budget.refuse(call, look, budget.seconds) is None
    budget.note(call, said("x"))
    refused(budget, invoke("look", paths=["a"]), look)


# Loops.


def go_round(budget: Budget, calls: list[str], results: list[str]) -> str | None:
    """Repeats these calls with their results; returns the number and the fault of the first refused one."""
    for number in range(100):
        call = invoke(calls[number % len(calls)], f"call {number:06}", path="x")
        fault = budget.refuse(call, invoker(), budget.seconds)
        if fault is not None:
            return f"{number}: {fault.message} {fault.suggestion}"
        budget.note(call, said(results[number % len(results)]))
    return None


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_circle_of_calls_with_the_same_results_is_refused(length: int) -> None:
    # The first call of the circle comes twice where it can, with another result: alone, it never repeats.
    names = ["look", "look", "find", "find"][:length]
    results = ["a", "b", "c", "d"][:length]
    refused = go_round(Budget(Limits(repeats=3)), names, results)
    assert refused is not None
    assert int(refused.partition(":")[0]) <= 3 * length


def test_a_call_that_goes_to_and_fro_is_refused() -> None:
    refused = go_round(Budget(Limits(repeats=3)), ["look"], ["on", "off"])
    assert refused is not None
    assert refused.startswith(
        '6: The call was not run: look {"path": "x"}, look {"path": "x"} had the same result 3 times; '
        "this run is limited to 3 times the same 2 calls with the same results."
    )
    assert "Try another tool or other arguments" in refused


def test_a_circle_of_a_tool_for_polling_goes_on() -> None:
    budget, poll = Budget(Limits(repeats=2)), invoker(repeats=50)
    for number in range(40):
        call = invoke("look")
        assert budget.refuse(call, poll, budget.seconds) is None
        budget.note(call, said("on" if number % 2 else "off"))


def failed(identifier: str, **details: object) -> ResultCanister:
    error = Fault(category="execution", message=f"Call {identifier} failed.", code="x", details=frozendict(details))
    return ResultCanister(invocation_id=identifier, error=error)


def test_the_same_failure_is_known_whatever_it_is_called() -> None:
    budget, look = Budget(Limits(repeats=3)), invoker()
    for number in range(3):
        call = invoke("look", f"toolu_00{number}", path="x")
        assert budget.refuse(call, look, budget.seconds) is None
        budget.note(call, failed(call.identifier, at=number))
    refused(budget, invoke("look", "toolu_004", path="x"), look)
    assert budget.break_loop(invoke("look", "toolu_004", path="y"), look) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=40), st.integers(1, 4))
def test_law_only_what_repeats_is_refused(past: list[tuple[str, str]], repeats: int) -> None:
    """A refused call has come with the same result ``repeats`` times, alone or with what stood between."""
    budget, look = Budget(Limits(repeats=repeats)), invoker()
    done: list[tuple[str, str]] = []
    for name, text in past:
        if budget.refuse(invoke(name), look, budget.seconds) is not None:
            own = [result for one, result in done if one == name]
            alone = len(own) >= repeats and len(set(own[-repeats:])) == 1
            circles = (done[-length * repeats :] for length in (2, 3, 4) if len(done) >= length * repeats)
            assert alone or any(one[0][0] == name and one == one[: len(one) // repeats] * repeats for one in circles)
            return
        budget.note(invoke(name), said(text))
        done.append((name, text))
