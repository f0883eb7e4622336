"""Runs: what they say and in which order, how they are left, and what stands afterwards."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ripieno import calls, channels
from ripieno.canisters import AssistantCanister, InvocationCanister, ResultCanister, SupervisorCanister, UserCanister
from ripieno.conducting import Run, conduct
from ripieno.confirmation import Answer, Approve, ConfirmationRequest
from ripieno.controls import Controls, Limits, Rules
from ripieno.conversations import Conversation, Usage
from ripieno.ensembles import Context, Ensemble, Opened
from ripieno.events import (
    Alert,
    ConductEnded,
    ContentSealed,
    Event,
    ExecutionBegan,
    InvocationSealed,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.exceptions import (
    ConfigurationInvalidity,
    FatalFault,
    InputError,
    NameAbsence,
    ProviderUnreachable,
    RipienoError,
    ToolExecutionFailure,
    UsageError,
    WireInvalidity,
)
from ripieno.execution import Execution
from tests.mechanism.players import (
    Blocking,
    Listening,
    Recording,
    Scripted,
    Step,
    ensemble,
    fates,
    invoke,
    invokes,
    results_of,
    says,
    scripted,
    settle_down,
    tool,
)

APPROVING = Rules(approve=("mine.*",))


async def follow(run: Run, events: list[Event]) -> None:
    async for event in run:
        events.append(event)


async def collected(run: Run) -> list[Event]:
    events: list[Event] = []
    await follow(run, events)
    return events


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


async def running(run: Run, blocking: Blocking) -> "asyncio.Task[Conversation]":
    """A task that awaits the run, when its tool has begun."""

    async def wait() -> Conversation:
        return await run

    task = asyncio.create_task(wait())
    await blocking.began.wait()
    return task


# What a run says and gives.


async def test_a_run_gives_the_conversation() -> None:
    model = scripted(
        invokes(invoke("look", path="x"), usage=Usage(input_tokens=3)), says("Seen.", usage=Usage(output_tokens=2))
    )
    conversation = await conduct(model, "Look.", ensembles=[ensemble(tool("look"))])
    assert conversation.canisters[0] == UserCanister.of("Look.")
    assert [type(one).__name__ for one in conversation.canisters] == [
        "UserCanister",
        "AssistantCanister",
        "InvocationCanister",
        "ResultCanister",
        "AssistantCanister",
    ]
    assert fates(conversation.canisters) == [("look", "look")]
    assert (conversation.text, conversation.finish, conversation.open) == ("Seen.", "stop", ())
    assert conversation.usage == Usage(input_tokens=3, output_tokens=2)
    assert [one[0] for one in model.asked] == [conversation.canisters[:1], conversation.canisters[:4]]


async def test_the_grammar_of_the_events() -> None:
    gate = asyncio.Event()

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        gate.set()
        return "seen"

    model = scripted(invokes(invoke("look"), gate.wait, settle_down), says("Done.", usage=Usage(input_tokens=1)))
    events = await collected(conduct(model, "Go.", ensembles=[ensemble(tool("look", look))]))
    assert kinds(events) == [
        "TurnBegan",
        "InvocationSealed",
        "ExecutionBegan",
        "ResultReady",
        "TurnEnded",
        "TurnBegan",
        "TextDelta",
        "ContentSealed",
        "TurnEnded",
        "ConductEnded",
    ]
    assert [event for event in events if isinstance(event, TurnBegan)] == [
        TurnBegan(model="score/scripted", turn=1),
        TurnBegan(model="score/scripted", turn=2),
    ]
    assert [event.turn for event in events if isinstance(event, TurnEnded)] == [1, 2]
    (ready,) = [event for event in events if isinstance(event, ResultReady)]
    assert (ready.tool, ready.early, ready.discarded) == ("mine.look", True, False)
    assert events[-1] == ConductEnded(finish="stop", turns=2, calls=1, usage=Usage(input_tokens=1))


async def test_what_the_model_reasons_for_ending_is_kept() -> None:
    ended = TurnEnded(finish="filter", reason="refusal")
    run = conduct(scripted([TurnBegan(), TextDelta("No."), ended]), "Go.")
    events = await collected(run)
    assert TurnEnded(finish="filter", reason="refusal", turn=1) in events
    assert run.conversation.finish == "filter"


async def test_nothing_happens_before_it_is_wanted() -> None:
    model = scripted(says())
    run = conduct(model, "Go.")
    await settle_down()
    assert model.asked == []
    assert run.conversation.canisters == (UserCanister.of("Go."),)
    async with run:
        await settle_down()
        assert len(model.asked) == 1
    assert run.conversation.finish == "stop"


async def test_iterating_then_awaiting_awaiting_twice() -> None:
    run = conduct(scripted(says("Hi.")), "Go.")
    events = await collected(run)
    conversation = await run
    assert conversation.text == "Hi."
    assert await run is conversation
    assert len(events) == 5


async def test_a_second_iteration_is_an_error() -> None:
    run = conduct(scripted(says()), "Go.")
    await collected(run)
    with pytest.raises(UsageError, match="iterated once"):
        await collected(run)
    awaited = conduct(scripted(says()), "Go.")
    await awaited
    with pytest.raises(UsageError, match="begun without a listener"):
        await collected(awaited)


async def test_an_entered_run_can_be_iterated_or_awaited() -> None:
    async with conduct(scripted(says("Hi.")), "Go.") as run:
        await settle_down()
        events = await collected(run)
    assert kinds(events)[0] == "TurnBegan"
    assert kinds(events)[-1] == "ConductEnded"
    async with conduct(scripted(says("Hi.")), "Go.") as run:
        assert (await run).text == "Hi."


def chatty(number: int) -> list[Step]:
    return [TurnBegan(), *(TextDelta(str(index)) for index in range(number)), TurnEnded(finish="stop")]


async def test_a_listener_that_is_slow_is_waited_for() -> None:
    passed: list[int] = []
    steps = [
        TurnBegan(),
        *(step for index in range(2000) for step in (TextDelta("x"), lambda index=index: passed.append(index))),
        TurnEnded(finish="stop"),
    ]
    run = conduct(scripted(steps), "Go.")
    iterator = aiter(run)
    await anext(iterator)
    await settle_down(3000)
    assert len(passed) <= channels.BOUND + 1
    events = [event async for event in iterator]
    assert len([event for event in events if isinstance(event, TextDelta)]) == 2000


async def test_awaiting_a_run_while_listening_to_it_does_not_hang() -> None:
    run = conduct(scripted(chatty(2000)), "Go.")
    seen = 0
    async for _ in run:
        seen += 1
        if seen == 3:
            assert (await run).finish == "stop"
    assert seen == 2003


async def test_entering_without_listening_does_not_hang() -> None:
    async with conduct(scripted(chatty(2000)), "Go.") as run:
        await settle_down(3000)
        assert (await run).finish == "stop"


# Leaving.


async def ended(blocking: Blocking) -> None:
    """Waits until a cancelled tool has ended."""
    await blocking.ended.wait()
    await settle_down()


@pytest.mark.parametrize("kept", [True, False])
async def test_breaking_out_cancels_every_running_tool(kept: bool) -> None:
    blocking, other = Blocking(), Blocking()
    model = scripted(invokes(invoke("look"), invoke("find")), says())
    found = [ensemble(tool("look", blocking), tool("find", other))]
    held: list[Run] = []

    def begin() -> Run:
        run = conduct(model, "Go.", ensembles=found)
        if kept:
            held.append(run)
        return run

    async for event in begin():
        if isinstance(event, TurnEnded):
            await blocking.began.wait()
            await other.began.wait()
            break
    await ended(blocking)
    await ended(other)
    assert (blocking.cancellations, other.cancellations) == (1, 1)
    for run in held:
        conversation = await run
        assert conversation.finish == "cancelled"
        assert fates(conversation.canisters) == [("look", "!cancelled"), ("find", "!cancelled")]
    await settle_down()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_exception_in_the_loops_body_cancels_too() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])

    async def body() -> None:
        async for event in run:
            if isinstance(event, ExecutionBegan):
                await blocking.began.wait()
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    await ended(blocking)
    assert blocking.cancellations == 1
    assert (await run).finish == "cancelled"


async def test_a_cancelled_listener_waits_for_the_results() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    task = asyncio.create_task(collected(run))
    await blocking.began.wait()
    await settle_down()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (blocking.running, blocking.cancellations) == (0, 1)
    assert run.conversation.finish == "cancelled"
    assert fates(run.conversation.canisters) == [("look", "!cancelled")]


async def test_a_cancelled_awaiter_waits_for_the_results() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    task = await running(run, blocking)
    await settle_down()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert blocking.running == 0
    assert fates(run.conversation.canisters) == [("look", "!cancelled")]


async def test_leaving_the_block_cancels_and_waits() -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look")), says())
    async with conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))]) as run:
        await blocking.began.wait()
        await settle_down()
    assert blocking.running == 0
    assert run.conversation.finish == "cancelled"
    assert fates(run.conversation.canisters) == [("look", "!cancelled")]


async def test_a_time_limit_around_the_block_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "GRACE", 0.1)
    blocking = Blocking(stubborn=True)
    model = scripted(invokes(invoke("look")), says())

    async def leave() -> None:
        async with asyncio.timeout(0.05), conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))]):
            await blocking.began.wait()
            await settle_down()

    with pytest.raises(TimeoutError):
        await leave()
    blocking.go.set()
    await settle_down()


async def test_leaving_at_once_leaves_nothing() -> None:
    model = scripted(says())
    async with conduct(model, "Go.") as run:
        pass
    assert (await run).finish == "cancelled"
    assert model.asked == []


async def test_cancelling_from_elsewhere_still_tells_how_it_ended() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if isinstance(event, TurnEnded):
            await blocking.began.wait()
            run.cancel()
    assert kinds(events)[-2:] == ["ResultReady", "ConductEnded"]
    assert events[-1] == ConductEnded(finish="cancelled", turns=1, calls=1)
    assert (await run).finish == "cancelled"


async def test_a_run_that_was_cancelled_before_it_began_asks_nothing() -> None:
    model = scripted(says())
    run = conduct(model, "Go.")
    run.cancel()
    assert (await run).finish == "cancelled"
    assert model.asked == []


async def test_an_iterator_that_is_dropped_unused_asks_nothing() -> None:
    model = scripted(says())
    run = conduct(model, "Go.")
    aiter(run)
    assert (await run).finish == "cancelled"
    assert model.asked == []


async def test_an_iterator_that_another_thread_drops_cancels_the_run() -> None:
    blocking = Blocking()
    run = conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking))])
    holder: list[Any] = [aiter(run)]
    await anext(holder[0])
    await blocking.began.wait()
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    await ended(blocking)
    assert (await run).finish == "cancelled"


async def test_cancelling_while_the_model_speaks_keeps_nothing_of_the_turn() -> None:
    began, blocking = asyncio.Event(), Blocking()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    recording = Recording()
    model = scripted([TurnBegan(), TextDelta("I "), InvocationSealed(index=0, invocation=invoke("look")), hang])
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))], execution=Execution(recorder=recording))
    task = await running(run, blocking)
    await began.wait()
    run.cancel()
    conversation = await task
    assert conversation.canisters == (UserCanister.of("Go."),)
    assert conversation.finish == "cancelled"
    assert [stage for stage, _ in recording.stages] == ["started", "finished", "discarded"]
    assert blocking.running == 0
    assert model.closed == [0]


async def test_cancelling_while_somebody_is_asked() -> None:
    began = asyncio.Event()

    class Waiting:
        async def confirm(self, request: ConfirmationRequest) -> Answer:
            began.set()
            await asyncio.Event().wait()
            return Approve()

    run = conduct(
        scripted(invokes(invoke("act")), says()),
        "Go.",
        ensembles=[ensemble(tool("act", effect="write"))],
        execution=Execution(confirmer=Waiting()),
    )
    task = asyncio.create_task(collected(run))
    await began.wait()
    run.cancel()
    await task
    assert fates(run.conversation.canisters) == [("act", "!cancelled")]


async def test_a_model_that_swallows_its_cancellation_is_stopped_after_its_answer() -> None:
    began = asyncio.Event()

    async def stubborn() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    model = scripted([TurnBegan(), stubborn, *invokes(invoke("look"))[1:]])
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look"))])
    task = asyncio.create_task(collected(run))
    await began.wait()
    run.cancel()
    await task
    assert len(model.asked) == 1
    assert run.conversation.finish == "cancelled"


async def test_a_run_is_collected_when_it_is_over() -> None:
    run = conduct(scripted(says()), "Go.")
    await collected(run)
    await settle_down()
    reference = weakref.ref(run)
    del run
    gc.collect()
    assert reference() is None


# Turns.


async def test_a_forced_choice_holds_for_the_first_turn() -> None:
    model = scripted(invokes(invoke("look")), invokes(invoke("look", "b")), says())
    await conduct(
        model, "Go.", ensembles=[ensemble(tool("look"))], controls=Controls(tool_choice="required", temperature=0.5)
    )
    assert [controls.tool_choice for _, _, controls in model.asked] == ["required", "auto", "auto"]
    assert {controls.temperature for _, _, controls in model.asked} == {0.5}


async def test_no_choice_means_no_call() -> None:
    model = scripted(invokes(invoke("look")), says())
    conversation = await conduct(
        model, "Go.", ensembles=[ensemble(tool("look"))], controls=Controls(tool_choice="none")
    )
    assert fates(conversation.canisters) == [("look", "!denied")]


async def test_only_what_is_allowed_is_called_and_all_is_offered() -> None:
    model = scripted(invokes(invoke("look"), invoke("find")), says())
    conversation = await conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look"), tool("find"))],
        controls=Controls(allowed_tools=("find",)),
    )
    assert fates(conversation.canisters) == [("look", "!denied"), ("find", "find")]
    assert model.asked[0][1].names == ("find", "look")


async def test_patterns_choose_what_is_offered() -> None:
    model = scripted(invokes(invoke("look")), says())
    found = [ensemble(tool("look"), tool("find"))]
    conversation = await conduct(model, "Go.", ensembles=found, tools=["mine.find"])
    assert fates(conversation.canisters) == [("look", "!unknown_tool")]
    assert model.asked[0][1].names == ("find",)
    with pytest.raises(NameAbsence):
        await conduct(model, "Go.", ensembles=found, tools=["mine.fnid"])


async def test_a_clash_ends_the_run_before_the_model_is_asked() -> None:
    model = scripted(says())
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look")), ensemble(tool("look"), name="yours")])
    with pytest.raises(ConfigurationInvalidity):
        await run
    assert model.asked == []
    assert run.conversation.finish == "error"


async def test_an_ensemble_may_change_between_turns() -> None:
    found = ensemble(tool("look"), tool("gone"))
    other = ensemble(tool("find"), name="yours")

    def change() -> None:
        found._adopt(Opened(connection=None, definitions=(tool("look"), tool("new"), tool("find"))))

    model = scripted(
        invokes(change, invoke("gone"), invoke("new", "early")),
        invokes(invoke("gone", "late"), invoke("new"), invoke("find")),
        says(),
    )
    events = await collected(conduct(model, "Go.", ensembles=[other, found], tools=["mine.*", "mine.gone", "yours.*"]))
    ready = {event.invocation.identifier: event for event in events if isinstance(event, ResultReady)}
    assert ready["gone"].result.error is None, "a turn resolves against the snapshot that it offered"
    assert ready["early"].tool == "new"
    assert ready["late"].result.error is not None
    assert (ready["new"].tool, ready["find"].tool) == ("mine.new", "yours.find")
    alerts = [event for event in events if isinstance(event, Alert)]
    assert [(alert.tool, alert.message) for alert in alerts] == [
        ("mine.find", "It is left out: yours.find has its name already.")
    ]
    assert [offer.names for _, offer, _ in model.asked] == [
        ("find", "gone", "look"),
        ("find", "look", "new"),
        ("find", "look", "new"),
    ]
    assert model.asked[1][1] is model.asked[2][1]


async def test_a_model_that_says_it_invokes_and_has_nothing_new_is_asked_no_more() -> None:
    model = scripted([TurnBegan(), TurnEnded(finish="invocations")])
    conversation = await conduct(model, "Go.")
    assert (conversation.finish, len(model.asked)) == ("stop", 1)


async def test_a_provider_whose_own_tools_take_a_break_is_asked_again() -> None:
    model = scripted([TurnBegan(), ContentSealed(says_text("Hm.")), TurnEnded(finish="invocations")], says("Done."))
    conversation = await conduct(model, "Go.")
    assert (conversation.finish, len(model.asked)) == ("stop", 2)
    assert conversation.canisters[1:] == (AssistantCanister.of("Hm."), AssistantCanister.of("Done."))


def says_text(text: str) -> Any:
    return AssistantCanister.of(text).content[0]


@pytest.mark.parametrize("finish", ["length", "filter", "stop"])
async def test_an_answer_that_was_cut_runs_no_more_of_its_calls(finish: Any) -> None:
    model = scripted(invokes(invoke("look"), invoke("act"), invoke("ask"), finish=finish))
    conversation = await conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look"), tool("act", effect="write"), tool("ask", hosted="caller"))],
        execution=Execution(rules=APPROVING),
    )
    assert fates(conversation.canisters) == [("look", "look"), ("act", "!cancelled"), ("ask", "!cancelled")]
    assert (conversation.finish, conversation.open) == (finish, ())
    assert conversation.say("Go on.").canisters[-1] == UserCanister.of("Go on.")


async def test_opaque_or_unknown_events_do_no_harm() -> None:
    alert = Alert(message="A picture was left out.")
    events = await collected(conduct(scripted([alert, TurnBegan(), alert, TurnEnded(finish="stop")]), "Go."))
    assert events.count(alert) == 2


# Namespaces, auxiliary data, instructions.


async def test_namespaces_live_as_long_as_the_conversation() -> None:
    seen: list[Any] = []

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        context.namespace["times"] = context.namespace.get("times", 0) + 1
        seen.append((context.namespace["times"], context.conversation, context.turn, context.auxdata))
        return "x"

    model = scripted(invokes(invoke("look", "a")), invokes(invoke("look", "b")), says())
    found = [ensemble(tool("look", look))]
    first = await conduct(model, "Go.", ensembles=found, auxdata="aux")
    second = await conduct(model, first.say("Again."), ensembles=found, auxdata="aux")
    assert seen == [(times, first.identifier, turn, "aux") for times, turn in ((1, 1), (2, 2), (3, 1), (4, 2))]
    await conduct(model, "Another.", ensembles=found)
    assert seen[4][0] == 1
    assert second.namespaces == {"mine": {"times": 4}}


@pytest.mark.parametrize("supervisor", ["Be brief.", SupervisorCanister.of("Be brief.")])
async def test_instructions_stand_first_and_once(supervisor: Any) -> None:
    model = scripted(says())
    first = await conduct(model, "Go.", supervisor=supervisor)
    second = await conduct(model, first.say("On."), supervisor=supervisor)
    third = await conduct(model, second.say("On."), supervisor="Be long.")
    assert first.canisters[:2] == (SupervisorCanister.of("Be brief."), UserCanister.of("Go."))
    assert second.canisters[:3] == first.canisters
    assert third.canisters[0] == SupervisorCanister.of("Be long.")
    assert third.canisters[1:5] == second.canisters[1:]


# Limits.


async def test_a_limit_of_turns_ends_the_run_and_the_conversation_goes_on() -> None:
    model = scripted(
        invokes(invoke("look", "a")), invokes(invoke("look", "b")), invokes(invoke("look", "c")), says("Done.")
    )
    found = [ensemble(tool("look"))]
    conversation = await conduct(model, "Go.", ensembles=found, limits=Limits(turns=2))
    assert (conversation.finish, len(model.asked)) == ("limit", 2)
    assert fates(conversation.canisters) == [("a", "look"), ("b", "look")]
    again = await conduct(model, conversation, ensembles=found)
    assert (again.finish, again.text) == ("stop", "Done.")
    assert again.canisters[: len(conversation.canisters)] == conversation.canisters


async def test_a_limit_of_calls_answers_what_it_refuses() -> None:
    model = scripted(invokes(*(invoke("look", f"a{number}") for number in range(5))), says("Done."))
    found = [ensemble(tool("look"))]
    events = await collected(run := conduct(model, "Go.", ensembles=found, limits=Limits(calls=2)))
    assert [fate for _, fate in fates(run.conversation.canisters)] == ["look", "look", "!limit", "!limit", "!limit"]
    assert (run.conversation.finish, len(model.asked)) == ("limit", 1)
    assert events[-1] == ConductEnded(finish="limit", turns=1, calls=2)
    conversation = await conduct(model, run.conversation.say("Go on."), ensembles=found)
    assert conversation.text == "Done."


async def test_a_loop_is_stopped_when_it_gets_nowhere() -> None:
    model = scripted(invokes(invoke("look", path="x")))
    conversation = await conduct(model, "Go.", ensembles=[ensemble(tool("look"))])
    assert [fate for _, fate in fates(conversation.canisters)] == ["look", "look", "look", "!limit"]
    assert conversation.finish == "limit"


async def test_tokens_are_a_limit() -> None:
    model = scripted(invokes(invoke("look"), usage=Usage(input_tokens=60)))
    conversation = await conduct(
        model, "Go.", ensembles=[ensemble(tool("look", repeats=99))], limits=Limits(tokens=100)
    )
    assert (conversation.finish, len(model.asked)) == ("limit", 2)


async def test_the_time_is_limited_while_the_model_speaks() -> None:
    blocking, recording = Blocking(), Recording()
    model = scripted([*invokes(invoke("look"))[:2], asyncio.Event().wait])
    run = conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look", blocking))],
        limits=Limits(wall=0.05),
        execution=Execution(recorder=recording),
    )
    conversation = await run
    assert (conversation.finish, conversation.canisters) == ("limit", (UserCanister.of("Go."),))
    assert blocking.running == 0
    assert recording.stages[-1] == ("discarded", "mine.look")


async def test_the_time_is_limited_while_tools_run() -> None:
    blocking = Blocking()
    model = scripted(invokes(invoke("look"), invoke("act")), says())
    conversation = await conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look", blocking), tool("act", effect="write"))],
        limits=Limits(wall=0.05),
        execution=Execution(rules=APPROVING),
    )
    assert fates(conversation.canisters) == [("look", "!timeout"), ("act", "!limit")]
    assert (conversation.finish, len(model.asked)) == ("limit", 1)


async def test_the_time_begins_when_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ripieno.limiting.time.monotonic", lambda: now)
    run = conduct(scripted(says("Hi.")), "Go.", limits=Limits(wall=5))
    now += 60
    assert (await run).text == "Hi."


async def test_a_time_out_of_the_models_own_is_no_limit() -> None:
    run = conduct(scripted([TurnBegan(), TimeoutError("the socket said nothing")]), "Go.")
    with pytest.raises(TimeoutError, match="the socket said nothing"):
        await run
    assert run.conversation.finish == "error"


async def test_an_agents_output_limit_bounds_its_results() -> None:
    async def look(context: Context, arguments: dict[str, Any]) -> str:
        return "x" * 5000

    conversation = await conduct(
        scripted(invokes(invoke("look")), says()),
        "Go.",
        ensembles=[ensemble(tool("look", look))],
        limits=Limits(output=100),
    )
    assert len(results_of(conversation.canisters)[0].text) < 200


# Ends.


async def test_a_terminal_call_ends_the_run_with_its_submission() -> None:
    model = scripted(invokes(invoke("look"), invoke("submit", answer=42), invoke("find")))
    found = [ensemble(tool("look"), tool("submit", effect="none", terminal=True), tool("find"))]
    conversation = await conduct(model, "Go.", ensembles=found)
    assert fates(conversation.canisters) == [("look", "look"), ("submit", "submit"), ("find", "!cancelled")]
    assert conversation.finish == "terminal"
    assert conversation.submission is not None
    assert conversation.submission.arguments == {"answer": 42}
    assert conversation.say("And?").submission is None


async def test_a_callers_call_opens_the_conversation_until_its_result_is_said() -> None:
    model = scripted(invokes(invoke("look"), invoke("ask", question="?")), says("Thanks."))
    found = [ensemble(tool("look"), tool("ask", hosted="caller"))]
    conversation = await conduct(model, "Go.", ensembles=found)
    assert (conversation.finish, [one.identifier for one in conversation.open]) == ("open", ["ask"])
    assert fates(conversation.canisters) == [("look", "look")]
    run = conduct(model, conversation, ensembles=found)
    with pytest.raises(InputError, match=r"ask \(ask\)"):
        await run
    assert len(model.asked) == 1
    answered = conversation.say(ResultCanister(invocation_id="ask", content=(says_text("yes"),)))
    assert (await conduct(model, answered, ensembles=found)).text == "Thanks."


async def test_a_bug_ends_the_run_and_loses_no_sibling() -> None:
    slow, listening = Blocking(value="slow"), Listening()

    async def broken(context: Context, arguments: dict[str, Any]) -> str:
        raise KeyError("secret")

    async def late() -> None:
        await settle_down()
        slow.go.set()

    model = scripted(invokes(invoke("broken"), invoke("slow"), invoke("act"), late), says())
    run = conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("broken", broken), tool("slow", slow), tool("act", effect="write"))],
        execution=Execution(rules=APPROVING, surroundings=listening.surroundings),
    )
    events: list[Event] = []
    with pytest.raises(ToolExecutionFailure, match=r"Tool 'mine\.broken' failed: KeyError: 'secret'") as caught:
        await follow(run, events)
    assert isinstance(caught.value.__cause__, KeyError)
    assert fates(run.conversation.canisters) == [("broken", "!execution"), ("slow", "slow"), ("act", "act")]
    assert "secret" not in results_of(run.conversation.canisters)[0].text
    assert run.conversation.finish == "aborted"
    assert isinstance(events[-1], ConductEnded)
    assert events[-1].finish == "aborted"
    assert [event.tool for event in events if isinstance(event, Alert)] == ["mine.broken"]
    assert len(listening.alerts) == 1
    assert len(model.asked) == 1
    with pytest.raises(ToolExecutionFailure):
        await run
    again = await conduct(model, run.conversation, ensembles=[])
    assert again.text == "Done."


async def test_a_bug_may_be_reported_instead() -> None:
    async def broken(context: Context, arguments: dict[str, Any]) -> str:
        raise KeyError("x")

    events = await collected(
        run := conduct(
            scripted(invokes(invoke("broken")), says("I see.")),
            "Go.",
            ensembles=[ensemble(tool("broken", broken, on_error="report"))],
        )
    )
    assert (run.conversation.text, run.conversation.finish) == ("I see.", "stop")
    assert len([event for event in events if isinstance(event, Alert)]) == 1


async def test_a_fatal_fault_ends_the_run_after_its_turn() -> None:
    async def fatal(context: Context, arguments: dict[str, Any]) -> str:
        raise FatalFault("The disk is gone.")

    model = scripted(invokes(invoke("fatal"), invoke("look")), says())
    run = conduct(model, "Go.", ensembles=[ensemble(tool("fatal", fatal), tool("look"))])
    with pytest.raises(ToolExecutionFailure, match="The disk is gone"):
        await run
    assert fates(run.conversation.canisters) == [("fatal", "!fatal"), ("look", "look")]
    assert (run.conversation.finish, len(model.asked)) == ("aborted", 1)


# Models that fail.


@pytest.mark.parametrize(
    "error",
    [
        ProviderUnreachable("p", "gone"),
        WireInvalidity("p", "nonsense"),
        ValueError("bug in a decoder"),
        OSError(104, "reset"),
    ],
)
async def test_a_stream_that_fails_drops_what_was_early(error: Exception) -> None:
    blocking, recording = Blocking(), Recording()
    model = scripted(
        invokes(invoke("look", "first")),
        [*invokes(invoke("look"), invoke("slow"))[:3], blocking.began.wait, settle_down, error],
    )
    run = conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look"), tool("slow", blocking))],
        execution=Execution(recorder=recording),
    )
    events: list[Event] = []
    with pytest.raises(type(error)) as caught:
        await follow(run, events)
    assert caught.value is error
    assert fates(run.conversation.canisters) == [("first", "look")]
    assert run.conversation.finish == "error"
    assert isinstance(events[-1], ConductEnded)
    assert (events[-1].finish, events[-1].calls) == ("error", 3)
    ready = {event.invocation.identifier: event.discarded for event in events if isinstance(event, ResultReady)}
    assert ready == {"first": False, "look": False, "slow": True}
    discarded = [record.invocation.identifier for record in recording.records if record.stage == "discarded"]
    assert discarded == ["look", "slow"]
    assert blocking.running == 0


async def test_an_answer_without_an_end_is_no_answer() -> None:
    run = conduct(scripted([TurnBegan(), TextDelta("Hm")]), "Go.")
    with pytest.raises(WireInvalidity, match="no end"):
        await run
    assert run.conversation.canisters == (UserCanister.of("Go."),)


async def test_a_model_that_cancels_itself_cancels_nobody_else() -> None:
    blocking = Blocking()
    model = scripted([*invokes(invoke("look"))[:2], blocking.began.wait, asyncio.CancelledError()])
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look", blocking))])
    with pytest.raises(RipienoError, match="cancelled from within"):
        await run
    assert (run.conversation.finish, blocking.running) == ("error", 0)


async def test_a_failure_that_nobody_asks_for_is_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async with conduct(scripted([TurnBegan(), ValueError("x")]), "Go.") as run:
        await settle_down()
    assert run.conversation.finish == "error"
    del run
    gc.collect()
    assert caplog.records == []


# The end of the loop.


def test_a_run_that_nobody_waits_for_ends_with_its_loop() -> None:
    blocking: list[Blocking] = []
    kept: list[Run] = []

    async def leave() -> None:
        blocking.append(Blocking())
        kept.append(
            conduct(scripted(invokes(invoke("look")), says()), "Go.", ensembles=[ensemble(tool("look", blocking[0]))])
        )
        await kept[0].__aenter__()
        await blocking[0].began.wait()

    asyncio.run(leave())
    assert blocking[0].running == 0
    assert fates(kept[0].conversation.canisters) == [("look", "!cancelled")]


async def test_models_may_be_made_of_any_events() -> None:
    """The least a model must say."""

    class Least(Scripted):
        async def batches(self, *details: Any, **more: Any) -> AsyncIterator[tuple[Event, ...]]:
            yield (TurnEnded(finish="stop"),)

    least = Least(provider=scripted().provider, name="least", turns=())
    conversation = await conduct(least, "Go.")
    assert conversation.canisters == (UserCanister.of("Go."), AssistantCanister())


@pytest.mark.parametrize("many", [20])
async def test_runs_side_by_side_share_nothing(many: int) -> None:
    seen: dict[str, list[str]] = {}

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        context.namespace.setdefault("keys", []).append(arguments["key"])
        await asyncio.sleep(0)
        seen[arguments["key"]] = context.namespace["keys"]
        return str(arguments["key"])

    found: list[Ensemble] = [ensemble(tool("look", look))]

    async def one(key: str) -> Conversation:
        return await conduct(scripted(invokes(invoke("look", key=key)), says(key)), "Go.", ensembles=found)

    conversations = await asyncio.gather(*(one(f"k{number}") for number in range(many)))
    assert [conversation.text for conversation in conversations] == [f"k{number}" for number in range(many)]
    assert all(keys == [key] for key, keys in seen.items())


async def test_who_continues_gives_one_of_three_things() -> None:
    forms: list[Callable[[], Any]] = [
        lambda: "Go.",
        lambda: [UserCanister.of("Go.")],
        lambda: Conversation.of("Go."),
    ]
    for form in forms:
        conversation = await conduct(scripted(says("Hi.")), form())
        assert [type(one) for one in conversation.canisters] == [UserCanister, AssistantCanister]
    assert isinstance(invoke("x"), InvocationCanister)
