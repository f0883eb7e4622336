"""Calls that repeat an earlier call: which one, what may not be repeated, and the whole pipeline for it."""

import asyncio
import dataclasses
from typing import Any

import pytest

from ripieno.approvals import Approve, Deny
from ripieno.canisters import Canister, Controls, ResultCanister, TextualContent
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters.faults import Fault
from ripieno.conducting import conduct
from ripieno.ensembles import Context, Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ExecutionFault, PermissionFault, ValidationFault
from ripieno.execution import Circumstances, Execution
from ripieno.execution.preparation import find_earlier
from tests.support.scripted_models import Person, ensemble, fault_of, invoke, invokes, results_of, says, scripted, tool

AGAIN = {"properties": {"invocation": {"type": "string"}}, "required": ["invocation"]}
PATH = {"properties": {"path": {"type": "string"}}}


def again(**policy: Any) -> Definition:
    """A tool that runs earlier calls."""
    return tool("retry", schema=AGAIN, **{"effect": "none", "again_argument": "invocation", **policy})


def done(identifier: str, category: Any = None) -> ResultCanister:
    """The result of a call."""
    error = None if category is None else Fault(category=category, message="It went wrong.")
    return ResultCanister(invocation_id=identifier, content=(TextualContent(text="."),), error=error)


OFFER = Offer.of(
    [
        ensemble(
            tool("look"),
            tool("write", effect="write"),
            tool("set", effect="write", idempotent=True),
            tool("theirs", hosted="caller"),
            again(),
        )
    ]
)


def test_the_identifier_or_the_latest_of_a_tool_is_meant() -> None:
    calls = [invoke("look", "a", path="1"), invoke("look", "b", path="2"), invoke("write", "look", path="3")]
    history: list[Canister] = [item for one in calls for item in (one, done(one.identifier))]
    assert find_earlier("a", history, OFFER) is calls[0]
    assert find_earlier("write", history, OFFER) is calls[2]
    # An identifier comes before a name, and the latest of its kind before the others.
    assert find_earlier("look", history, OFFER) is calls[2]
    assert find_earlier("look", history[:4], OFFER) is calls[1]
    with pytest.raises(ValidationFault, match="no earlier call 'c'") as raised:
        find_earlier("c", history, OFFER)
    assert raised.value.suggestion == "Calls: a (look), b (look), look (write)."
    with pytest.raises(ValidationFault, match="no earlier call"):
        find_earlier("a", [], OFFER)


def test_what_may_have_been_done_is_not_done_twice() -> None:
    for name, refused in (("look", False), ("write", True), ("set", False)):
        history = [invoke(name, "a"), done("a", "outcome_unknown")]
        if refused:
            with pytest.raises(PermissionFault, match="The outcome of 'a' is unknown"):
                find_earlier("a", history, OFFER)
        else:
            assert find_earlier("a", history, OFFER) is history[0]
    for category in ("execution", "timeout", "network", "denied"):
        history = [invoke("write", "a"), done("a", category)]
        assert find_earlier("a", history, OFFER) is history[0]


def test_an_unknown_outcome_of_a_repetition_counts_for_the_call() -> None:
    first, second = invoke("write", "a"), invoke("retry", "b", invocation="write")
    history: list[Canister] = [first, done("a", "execution"), second, done("b", "outcome_unknown")]
    with pytest.raises(PermissionFault):
        find_earlier("a", history, OFFER)
    # A later call of the same tool is another one.
    history += [invoke("write", "c"), done("c", "execution")]
    assert find_earlier("c", history, OFFER) is history[4]
    assert find_earlier("write", history, OFFER) is history[4]
    with pytest.raises(ValidationFault, match="ran another call"):
        find_earlier("b", history, OFFER)


def test_what_is_not_ours_is_not_run() -> None:
    for name, message in (("theirs", "is run by the caller"), ("gone", "no longer offered")):
        with pytest.raises(Exception, match=message):
            find_earlier("a", [invoke(name, "a"), done("a")], OFFER)


def failing_once(asked: list[dict[str, Any]]) -> Definition:
    """A tool that fails at first."""

    async def write(context: Context, arguments: dict[str, Any]) -> str:
        asked.append(arguments)
        if len(asked) == 1:
            raise ExecutionFault("The disk was full.")
        return f"wrote {arguments['path']} as {context.invocation}"

    return tool("write", write, schema=PATH, effect="write")


def last(conversation: Any) -> ResultCanister:
    return results_of(conversation.canisters)[-1]


async def run(mine: Ensemble, execution: Execution, *turns: Any, **settings: Any) -> Any:
    """A conversation of these calls."""
    model = scripted(*(invokes(one) for one in turns), says())
    return await conduct(model, "Go.", ensembles=[mine], execution=execution, **settings)


async def test_a_repetition_is_asked_about_as_the_call_it_is() -> None:
    asked: list[dict[str, Any]] = []
    person = Person(Approve(), Approve())
    execution = Execution(confirmer=person)
    turns = invoke("write", "call_1", path="a"), invoke("retry", "call_2", invocation="call_1")
    conversation = await run(ensemble(failing_once(asked), again()), execution, *turns)
    assert asked == [{"path": "a"}, {"path": "a"}]
    assert last(conversation).text == "wrote a as call_2"
    assert last(conversation).invocation_id == "call_2"
    # retry itself has no effect, and is not asked about beside what it runs.
    assert [(one.tool, dict(one.arguments), one.effect) for one in person.requests] == 2 * [
        ("mine.write", {"path": "a"}, "write")
    ]


async def test_a_repetition_can_be_denied() -> None:
    asked: list[dict[str, Any]] = []
    turns = invoke("write", "call_1", path="a"), invoke("retry", "call_2", invocation="call_1")
    mine = ensemble(failing_once(asked), again())
    conversation = await run(mine, Execution(confirmer=Person(Approve(), Deny(advice="Not again."))), *turns)
    assert len(asked) == 1
    error = last(conversation).error
    assert (error.category, error.suggestion) == ("denied", "Not again.")
    # By rules, too: those of the tool, and those of retry.
    for rules in (Rules(deny=("mine.write",)), Rules(deny=("mine.retry",))):
        asked.clear()
        around = Circumstances(history=[turns[0], done("call_1", "execution")])
        execution = Execution(rules=dataclasses.replace(rules, approve=("mine.*",)))
        fault = fault_of(await execution.execute(turns[1], ensembles=[mine], circumstances=around))
        assert (fault.category, asked) == ("denied", [])


async def test_a_repetition_is_validated_limited_and_bounded() -> None:
    asked: list[dict[str, Any]] = []
    mine = ensemble(failing_once(asked), again())
    execution = Execution(rules=Rules(approve=("mine.*",)))
    # The schema is that of now.
    around = Circumstances(history=[invoke("write", "call_1", path=3.5, more=1), done("call_1", "validation")])
    retry = invoke("retry", "call_2", invocation="call_1")
    fault = fault_of(await execution.execute(retry, ensembles=[mine], circumstances=around))
    assert (fault.category, asked) == ("validation", [])
    turns = invoke("write", "call_1", path="a"), invoke("retry", "call_2", invocation="call_1")
    conversation = await run(mine, execution, *turns, limits=Limits(calls=1))
    assert last(conversation).error.category == "limit"
    assert len(asked) == 1
    # No turn may call by a detour what it may not call.
    model = scripted(invokes(invoke("write", "call_1", path="a")), invokes(retry), says())
    controls = Controls(allowed_tools=("retry", "write"))
    conversation = await conduct(model, "Go.", ensembles=[mine], execution=execution, controls=controls)
    assert last(conversation).error is None
    conversation = await conduct(
        scripted(invokes(retry), says()),
        conversation.say("Again."),
        ensembles=[mine],
        execution=execution,
        controls=Controls(allowed_tools=("retry",)),
    )
    assert last(conversation).error.category == "denied"
    assert "'write' may not be called in this turn" in last(conversation).error.message


async def test_a_repetition_of_what_writes_waits_for_what_stands_before_it() -> None:
    order: list[str] = []

    async def slow(context: Context, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append("looked")
        return "."

    async def write(context: Context, arguments: dict[str, Any]) -> str:
        order.append("wrote")
        return "."

    mine = ensemble(tool("look", slow), tool("write", write, effect="write"), again())
    model = scripted(
        invokes(invoke("write", "call_1")),
        invokes(invoke("look", "call_2"), invoke("retry", "call_3", invocation="call_1")),
        says(),
    )
    execution = Execution(rules=Rules(approve=("mine.*",)))
    await conduct(model, "Go.", ensembles=[mine], execution=execution)
    assert order == ["wrote", "looked", "wrote"]


async def test_without_a_conversation_there_is_nothing_to_run_again() -> None:
    fault = fault_of(await Execution().execute(invoke("retry", invocation="call_1"), ensembles=[ensemble(again())]))
    assert (fault.category, fault.suggestion) == ("validation", "There was no call before this one.")
