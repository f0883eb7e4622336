"""The pipeline, step by step: resolve, validate, confirm, run, bound, record."""

import asyncio
import threading
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.approvals import Approve, ConfirmationRequest, Deny, Edit
from ripieno.approvals.presentation import present
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import ConfirmationRequested, Event, ExecutionBegan, ExecutionProgress
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Context
from ripieno.exceptions import InputError
from ripieno.execution import Circumstances, Execution
from ripieno.jsonvalues import encode
from tests.support.scripted_models import (
    Blocking,
    Hesitating,
    Listening,
    Person,
    Recording,
    ensemble,
    fault_of,
    invoke,
    settle_down,
    tool,
)
from tests.support.single_calls import ADD, Seeing, returning
from tests.support.virtual_time import in_virtual_time

# Resolving and validating.


async def test_a_good_call() -> None:
    seeing = Seeing()
    result = await Execution().execute(
        invoke("add", "call_7", left=1, tags=["a", {"b": 1}]), ensembles=[ensemble(tool("add", seeing, schema=ADD))]
    )
    assert (result.invocation_id, result.text) == ("call_7", "seen")
    (arguments,) = seeing.arguments
    assert arguments == {"left": 1, "right": 10, "tags": ["a", {"b": 1}]}
    assert (type(arguments), type(arguments["tags"]), type(arguments["tags"][1])) == (dict, list, dict)


async def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    recording = Recording()
    result = await Execution(recorder=recording).execute(invoke("ad"), ensembles=[ensemble(tool("add"))])
    fault = fault_of(result)
    assert (fault.category, fault.suggestion) == ("unknown_tool", "Did you mean add?")
    assert result.report.attempts == 0
    assert recording.stages == [("refused", "ad")]


async def test_somebody_elses_tool_is_not_ours_to_run() -> None:
    with pytest.raises(InputError, match=r"mine\.ask is run by the caller, not here"):
        await Execution().execute(invoke("ask"), ensembles=[ensemble(tool("ask", hosted="caller"))])


async def test_arguments_that_could_not_be_read() -> None:
    seeing = Seeing()
    unread = Fault(category="validation", code="invalid_json", message="Not JSON: it ends too early.")
    invocation = InvocationCanister(identifier="a", name="add", raw='{"left": ', fault=unread)
    result = await Execution().execute(invocation, ensembles=[ensemble(tool("add", seeing))])
    assert result.error is unread
    assert seeing.arguments == []


@pytest.mark.parametrize(
    ("arguments", "parameter"), [({}, "left"), ({"left": "one"}, "left"), ({"left": 1, "colour": 2}, "colour")]
)
async def test_arguments_that_do_not_fit_name_their_parameter(arguments: dict[str, Any], parameter: str) -> None:
    seeing = Seeing()
    result = await Execution().execute(
        invoke("add", **arguments), ensembles=[ensemble(tool("add", seeing, schema=ADD))]
    )
    fault = fault_of(result)
    assert fault.category == "validation"
    assert parameter in fault.message
    assert fault.suggestion == "Fix the arguments of 'add' and call it again."
    assert seeing.arguments == []


@pytest.mark.parametrize(
    ("policy", "arguments", "category"),
    [
        ({}, {}, "validation"),
        ({"effect": "write"}, {"left": 1}, "denied"),
        ({"on_error": "report"}, {"left": 1}, "execution"),
    ],
)
async def test_faults_name_a_tool_as_the_model_knows_it(
    policy: dict[str, Any], arguments: dict[str, Any], category: str
) -> None:
    def broken(context: Context, arguments: dict[str, Any]) -> str:
        raise ZeroDivisionError

    found = ensemble(tool("add", broken, schema=ADD, **policy), name="wx", prefix="wx")
    result = await Execution().execute(invoke("wx__add", **arguments), ensembles=[found])
    fault = fault_of(result)
    assert fault.category == category
    assert "'wx__add'" in result.text
    assert "'add'" not in result.text


async def test_a_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def broken(context: Context, arguments: dict[str, Any]) -> float:
        return 1 / 0

    result = await Execution().execute(invoke("add"), ensembles=[ensemble(tool("add", broken))])
    assert "division" not in result.text
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "The tool mine.add failed unexpectedly.")
    assert "in broken" in caplog.text
    assert "ZeroDivisionError: division by zero" in caplog.text


# Confirming.


async def test_a_bare_execution_is_the_strict_one() -> None:
    for effect in ("none", "read"):
        assert (
            await Execution().execute(invoke("look"), ensembles=[ensemble(tool("look", effect=effect))])
        ).error is None
    for effect in ("write", "destructive"):
        seeing = Seeing()
        result = await Execution().execute(invoke("look"), ensembles=[ensemble(tool("look", seeing, effect=effect))])
        fault = fault_of(result)
        assert (fault.category, fault.message) == ("denied", "The call of 'look' was denied.")
        assert 'approve = ["mine.look"]' in str(fault.suggestion)
        assert seeing.arguments == []


async def test_whoever_is_asked_sees_all_and_decides() -> None:
    seeing, person, events = Seeing(), Person(Approve()), list[Event]()
    execution = Execution(confirmer=person)
    result = await execution.execute(
        invoke("add", "a", left=1),
        ensembles=[ensemble(tool("add", seeing, schema=ADD, effect="write"))],
        circumstances=Circumstances(conversation="c", notify=events.append),
    )
    assert result.text == "seen"
    assert person.requests == [
        ConfirmationRequest(
            invocation="a",
            tool="mine.add",
            effect="write",
            arguments=frozendict({"left": 1, "right": 10}),
            reason="its effect is write",
            conversation="c",
            presentation=present(
                tool="mine.add", effect="write", reason="its effect is write", arguments={"left": 1, "right": 10}
            ),
            waivable=True,
        )
    ]
    assert [type(event) for event in events] == [ConfirmationRequested, ExecutionBegan]
    shown: Any = events[0].mapping()["request"]
    assert shown == person.requests[0].mapping()
    assert shown["arguments"] == {"left": 1, "right": 10}
    assert shown["presentation"]["digest"] == person.requests[0].shown.digest
    assert shown["choices"] == ["approve", "always", "edit", "deny", "defer"]


async def test_a_denial_carries_its_advice() -> None:
    seeing, recording = Seeing(), Recording()
    execution = Execution(confirmer=Person(Deny("Use the other one.")), recorder=recording)
    result = await execution.execute(invoke("look"), ensembles=[ensemble(tool("look", seeing, effect="write"))])
    assert result.text == "Error: The call of 'look' was denied.\nUse the other one."
    assert not fault_of(result).recoverable
    assert recording.stages == [("asked", "mine.look"), ("answered", "mine.look"), ("refused", "mine.look")]
    assert recording.records[1].details == {"answer": "deny", "advice": "Use the other one."}
    assert seeing.arguments == []


async def test_edited_arguments_are_validated_like_any_others() -> None:
    seeing = Seeing()
    found = ensemble(tool("add", seeing, schema=ADD, effect="write"))

    async def edit(arguments: Any) -> ResultCanister:
        execution = Execution(confirmer=Person(Edit(arguments)))
        return await execution.execute(invoke("add", left=1), ensembles=[found])

    assert (await edit({"left": 5})).error is None
    assert (await edit(frozendict({"left": 6, "tags": ("a",)}))).error is None
    assert seeing.arguments == [{"left": 5, "right": 10}, {"left": 6, "right": 10, "tags": ["a"]}]
    assert fault_of(await edit({"left": "five"})).category == "validation"
    for nonsense in (None, 5, {"left": object()}, [1], {1: 2}):
        assert fault_of(await edit(nonsense)).category == "denied"
    assert len(seeing.arguments) == 2


# Running.


async def test_a_tool_learns_on_whose_behalf_it_runs() -> None:
    seeing, listening = Seeing(), Listening()
    found = ensemble(tool("look", seeing, timeout=7), configuration={"depth": 2})
    namespaces: dict[str, dict[str, object]] = {}
    around = Circumstances(conversation="c", turn=4, auxdata="mine", namespaces=namespaces)
    execution = Execution(surroundings=listening.surroundings)
    await execution.execute(invoke("look", "a"), ensembles=[found], circumstances=around)
    (context,) = seeing.contexts
    assert (context.invocation, context.conversation, context.turn, context.auxdata) == ("a", "c", 4, "mine")
    assert context.invoker is found.access_invoker("look")
    assert context.configuration == {"depth": 2}
    assert context.surroundings is listening.surroundings
    assert context.deadline is not None
    assert 6 < context.deadline - asyncio.get_running_loop().time() <= 7
    context.namespace["seen"] = 1
    assert namespaces == {"mine": {"seen": 1}}
    await execution.execute(invoke("look", "b"), ensembles=[found], circumstances=around)
    assert seeing.contexts[1].namespace is context.namespace


async def test_what_a_tool_changes_in_its_arguments_is_its_own() -> None:
    async def look(context: Context, arguments: dict[str, Any]) -> str:
        arguments["paths"].append("more")
        return "x"

    invocation = invoke("look", paths=["a"])
    await Execution().execute(invocation, ensembles=[ensemble(tool("look", look))])
    assert invocation.arguments == {"paths": ("a",)}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(5, 5), (0.5, 0.5), (10**400, 86400), (0, 30), (-1, 30), ("9", 30), (None, 30)]
)
async def test_an_argument_may_set_the_deadline(seconds: Any, expected: float) -> None:
    seeing = Seeing()
    arguments = {} if seconds is None else {"seconds": seconds}
    await Execution().execute(
        invoke("look", **arguments), ensembles=[ensemble(tool("look", seeing, timeout_argument="seconds"))]
    )
    (context,) = seeing.contexts
    assert context.deadline is not None
    assert expected - 1 < context.deadline - asyncio.get_running_loop().time() <= expected


@pytest.mark.parametrize(
    ("policy", "seconds", "reported"), [(1, None, b"1"), (9, 1, b"1"), (9, 1.0, b"1"), (9, 0.5, b"0.5")]
)
@in_virtual_time
async def test_a_fault_has_the_deadline_in_one_form(policy: float, seconds: float | None, reported: bytes) -> None:
    late = tool("late", Blocking(), timeout=policy, timeout_argument="seconds")
    arguments: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
    result = await Execution().execute(invoke("late", **arguments), ensembles=[ensemble(late)])
    assert encode(fault_of(result).details) == b'{"timeout_seconds":%s}' % reported


async def test_the_lowest_of_the_output_limits_holds() -> None:
    found = [ensemble(tool("look", returning("x" * 5000), output=1000))]

    async def length(execution: Execution, **around: Any) -> int:
        result = await execution.execute(invoke("look"), ensembles=found, circumstances=Circumstances(**around))
        return len(result.text)

    assert 1000 < await length(Execution()) < 1100
    assert 1000 < await length(Execution(limits=Limits(output=2000)), output=3000) < 1100
    assert 100 < await length(Execution(limits=Limits(output=100))) < 200
    assert 50 < await length(Execution(limits=Limits(output=100)), output=50) < 100


async def test_progress_is_told_from_any_thread_until_the_result() -> None:
    events: list[Event] = []
    kept: list[Context] = []

    def look(context: Context, arguments: dict[str, Any]) -> str:
        kept.append(context)
        context.progress(1, 2, "half")
        return "x"

    async def find(context: Context, arguments: dict[str, Any]) -> str:
        kept.append(context)
        context.progress(3)
        return "x"

    found = [ensemble(tool("look", look), tool("find", find))]
    around = Circumstances(notify=events.append)
    for name in ("look", "find"):
        await Execution().execute(invoke(name), ensembles=found, circumstances=around)
    told = [event for event in events if isinstance(event, ExecutionProgress)]
    assert told == [
        ExecutionProgress(invocation_id="look", tool="mine.look", done=1, total=2, message="half"),
        ExecutionProgress(invocation_id="find", tool="mine.find", done=3),
    ]
    for context in kept:
        context.progress(9)
        thread = threading.Thread(target=context.progress, args=(9,))
        thread.start()
        thread.join()
    await settle_down()
    assert len([event for event in events if isinstance(event, ExecutionProgress)]) == 2


# Cancelling.


async def test_cancelling_the_caller_ends_the_call_first() -> None:
    blocking, recording = Blocking(), Recording()
    task = asyncio.create_task(
        Execution(recorder=recording).execute(invoke("look"), ensembles=[ensemble(tool("look", blocking))])
    )
    await blocking.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert blocking.running == 0
    assert recording.stages == [("started", "mine.look"), ("finished", "mine.look")]
    assert [one.result.error.category for one in recording.records if one.result and one.result.error] == ["cancelled"]


async def test_cancelling_while_somebody_is_asked_runs_nothing() -> None:
    seeing, person = Seeing(), Hesitating()
    found = [ensemble(tool("look", seeing, effect="write"))]
    task = asyncio.create_task(Execution(confirmer=person).execute(invoke("look"), ensembles=found))
    await person.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seeing.arguments == []


async def test_the_clock_does_not_run_while_somebody_is_asked() -> None:
    seeing, person = Seeing(), Hesitating()
    found = [ensemble(tool("look", seeing, effect="write", timeout=5))]
    task = asyncio.create_task(Execution(confirmer=person).execute(invoke("look"), ensembles=found))
    await person.began.wait()
    asked = asyncio.get_running_loop().time()
    person.go.set()
    assert (await task).text == "seen"
    assert seeing.contexts[0].deadline is not None
    assert seeing.contexts[0].deadline >= asked + 5
