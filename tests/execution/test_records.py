"""Records and alerts of the pipeline, and the execution of one invoker."""

import asyncio
import dataclasses
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.canisters.controls import Rules
from ripieno.canisters.events import Alert
from ripieno.canisters.faults import SUGGESTIONS
from ripieno.ensembles import Context
from ripieno.exceptions import InputError, ResourceFault, Superseded, ToolExecutionFailure
from ripieno.execution import Circumstances, Execution, execute_invoker
from ripieno.execution.records import Reporter, record_of
from ripieno.storage.records import Record
from tests.support.scripted_models import Listening, Recording, ensemble, fault_of, invoke, tool
from tests.support.single_calls import ADD, Seeing, raising
from tests.support.toml_ensembles import make_context


@pytest.fixture(autouse=True, params=["local", "remote"])
def _place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "remote", request.param == "remote")


ALL = Rules(approve=("mine.*",))

# Recording and alerting.


async def test_a_start_is_recorded_before_the_tool_runs_and_the_end_before_anybody_sees_it() -> None:
    order: list[str] = []

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        order.append("run")
        return "x"

    class Noting(Recording):
        def record(self, records: Any) -> None:
            order.extend(record.stage for record in records)

    execution = Execution(recorder=Noting(), rules=ALL)
    await execution.execute(invoke("look"), ensembles=[ensemble(tool("look", look, effect="write"))])
    order.append("seen")
    assert order == ["started", "run", "finished", "seen"]


async def test_records_say_whose_call_it_was() -> None:
    recording = Recording()
    around = Circumstances(owner="ada", conversation="c", turn=3)
    invocation = invoke("look", "a")
    result = await Execution(recorder=recording).execute(
        invocation, ensembles=[ensemble(tool("look"))], circumstances=around
    )
    end = Record(
        stage="finished", conversation="c", turn=3, tool="mine.look", owner="ada", invocation=invocation, result=result
    )
    allowed = frozendict(allowed="its effect is read")
    assert recording.records == [dataclasses.replace(end, stage="started", result=None, details=allowed), end]


async def test_calls_of_several_conversations_that_end_together_are_recorded_after_what_waits_of_each() -> None:
    recording, ended = Recording(), asyncio.Semaphore(0)
    reporter = Reporter(recording, None)
    around = [Circumstances(conversation=name) for name in ("one", "two")]
    for scope in around:
        assert reporter.start(record_of("started", scope, "mine.look", invoke("look")), scope, reads=True)
    for scope in around:
        reporter.end(record_of("finished", scope, "mine.write", invoke("write")), scope, ended.release)
    for _ in around:
        await ended.acquire()
    for name in ("one", "two"):
        tools = [record.tool for record in recording.records if record.conversation == name]
        assert tools == ["mine.look", "mine.write"]


async def test_a_conversation_that_was_taken_over_takes_no_other_one_with_it() -> None:
    class Fenced(Recording):
        def record(self, records: Any) -> None:
            if any((one.conversation, one.stage) == ("lost", "finished") for one in records):
                raise Superseded("Another process has taken over the conversation.")
            super().record(records)

    recording, begun, gate = Fenced(), asyncio.Semaphore(0), asyncio.Event()

    async def write(context: Context, arguments: dict[str, Any]) -> str:
        begun.release()
        await gate.wait()
        return "x"

    execution, tools = Execution(recorder=recording, rules=ALL), [ensemble(tool("write", write, effect="write"))]
    calls = [
        asyncio.create_task(
            execution.execute(invoke("write"), ensembles=tools, circumstances=Circumstances(conversation=name))
        )
        for name in ("lost", "kept")
    ]
    for _ in calls:
        await begun.acquire()
    gate.set()
    await asyncio.wait(calls)
    assert [one.conversation for one in recording.records if one.stage == "finished"] == ["kept"]
    assert execution.reporter.superseded("", "lost") is not None
    assert execution.reporter.superseded("", "kept") is None


async def test_what_cannot_be_recorded_is_not_run() -> None:
    seeing, listening = Seeing(), Listening()
    recorder = Recording(lambda record: record.stage == "started")
    execution = Execution(recorder=recorder, rules=ALL, surroundings=listening.surroundings)
    result = await execution.execute(invoke("look"), ensembles=[ensemble(tool("look", seeing, effect="write"))])
    fault = fault_of(result)
    assert (fault.category, fault.code) == ("resource", "not_recorded")
    assert seeing.arguments == []
    assert listening.messages == ["The recorder failed with OSError: [Errno 28] No space left on device"]


async def test_a_call_that_only_reads_does_not_run_after_a_failure_to_record() -> None:
    seeing, recording = Seeing(), Recording(lambda record: full)
    execution = Execution(recorder=recording)
    tools = [ensemble(tool("look", seeing))]
    full = False
    assert (await execution.execute(invoke("look"), ensembles=tools)).error is None
    full = True
    # The first result is not lost, or its call is not run: a remote recorder is asked before.
    await execution.execute(invoke("look"), ensembles=tools)
    ran = len(seeing.arguments)
    assert ran == (1 if Recording.remote else 2)
    for _ in range(2):
        assert fault_of(await execution.execute(invoke("look"), ensembles=tools)).code == "not_recorded"
    assert len(seeing.arguments) == ran
    full = False
    # The start of this one is recorded before it runs, and those of later ones may wait again. The results of those
    # before come first.
    assert (await execution.execute(invoke("look"), ensembles=tools)).error is None
    ended = ["started", "finished"] * (ran - 1) + ["refused"] * (4 - ran)
    assert sorted([stage for stage, _ in recording.stages][2:-2]) == sorted(ended)
    assert [stage for stage, _ in recording.stages[-2:]] == ["started", "finished"]


@pytest.mark.parametrize("stage", ["finished", "refused"])
async def test_a_recorder_that_fails_later_loses_no_result(stage: str) -> None:
    listening = Listening()
    execution = Execution(recorder=Recording(lambda record: record.stage == stage), surroundings=listening.surroundings)
    name = "look" if stage == "finished" else "unknown"
    result = await execution.execute(invoke(name), ensembles=[ensemble(tool("look"))])
    assert (result.error is None) is (stage == "finished")
    assert len(listening.messages) == 1


async def test_what_could_not_be_recorded_is_recorded_with_the_next_record_of_its_conversation() -> None:
    recording = Recording(lambda record: full and record.stage == "finished")
    execution, full = Execution(recorder=recording, rules=ALL), True
    mine = [ensemble(tool("write", effect="write"))]

    async def write(conversation: str, name: str) -> None:
        around = Circumstances(owner="ada", conversation=conversation)
        await execution.execute(invoke("write", name), ensembles=mine, circumstances=around)

    # Both end in one step of the loop.
    await asyncio.gather(write("c", "a"), write("d", "b"))
    assert [stage for stage, _ in recording.stages] == ["started", "started"]
    full = False
    for conversation, lost in (("d", "b"), ("c", "a")):
        before = len(recording.records)
        await write(conversation, "next")
        found = [
            (one.stage, one.conversation, one.invocation and one.invocation.identifier) for one in recording.records
        ]
        ended = ("finished", conversation, lost)
        assert found[before:] == [ended, ("started", conversation, "next"), ("finished", conversation, "next")]


async def test_an_application_that_cannot_take_an_alert_loses_no_result() -> None:
    def fail(alert: Alert) -> None:
        raise ValueError("not now")

    handled: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: handled.append(context))
    surroundings = dataclasses.replace(Listening().surroundings, alert=fail)
    found = ensemble(tool("look", raising(lambda: KeyError("x"))))
    result = await Execution(surroundings=surroundings).execute(invoke("look"), ensembles=[found])
    assert fault_of(result).code == "tool_failure"
    assert [str(context["exception"]) for context in handled] == ["not now"]
    assert "KeyError" in handled[0]["message"]


# One invoker, as the specification has it.


async def test_an_invoker_can_be_executed_alone() -> None:
    seeing = Seeing()
    found = ensemble(tool("add", seeing, schema=ADD), prefix="mine")
    invoker = found.access_invoker("add")
    namespace: dict[str, Any] = {}
    context = dataclasses.replace(make_context(found, "add"), invocation="a", namespace=namespace, auxdata="x")
    assert (await execute_invoker(invoker, {"left": 1}, context)).text == "seen"
    assert seeing.contexts[0].namespace is namespace
    assert (seeing.contexts[0].auxdata, seeing.contexts[0].invocation) == ("x", "a")
    assert fault_of(await execute_invoker(invoker, {}, context)).category == "validation"
    with pytest.raises(InputError):
        await execute_invoker(invoker, {"left": object()}, context)


async def test_an_invoker_that_writes_is_denied_and_a_fault_is_a_result() -> None:
    writing = ensemble(tool("look", effect="write"))
    faulty = ensemble(tool("look", raising(lambda: ResourceFault("There is no x."))))
    result = await execute_invoker(writing.access_invoker("look"), {}, make_context(writing, "look"))
    assert fault_of(result).category == "denied"
    result = await execute_invoker(faulty.access_invoker("look"), {}, make_context(faulty, "look"))
    assert result.text == f"Error: There is no x.\n{SUGGESTIONS['resource']}"


@pytest.mark.parametrize("on_error", ["abort", "report"])
async def test_a_bug_is_raised_unless_it_is_to_be_reported(on_error: str) -> None:
    found = ensemble(tool("look", raising(lambda: KeyError("x")), on_error=on_error))
    running = execute_invoker(found.access_invoker("look"), {}, make_context(found, "look"))
    if on_error == "report":
        assert fault_of(await running).code == "tool_failure"
        return
    with pytest.raises(ToolExecutionFailure, match=r"Tool 'mine\.look' failed: KeyError: 'x'") as caught:
        await running
    assert isinstance(caught.value.__cause__, KeyError)
