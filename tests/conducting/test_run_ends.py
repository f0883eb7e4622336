"""How runs end: limits, terminal and open calls, bugs, and models that fail."""

import asyncio
import gc
from collections.abc import Awaitable
from typing import Any

import pytest

from ripieno.canisters import Conversation, ResultCanister, UserCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Alert, ConductEnded, Event, ResultReady, TurnBegan
from ripieno.conducting import conduct
from ripieno.ensembles import Context
from ripieno.exceptions import FatalFault, InputError, ProviderUnreachable, ToolExecutionFailure, WireInvalidity
from ripieno.execution import Execution
from tests.support.runs import APPROVING, collected, follow, says_text
from tests.support.scripted_models import (
    Blocking,
    Listening,
    Recording,
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
from tests.support.virtual_time import VirtualLoop

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
    assert events[-2:] == [
        Alert(message="The run ended: it is limited to 2 calls."),
        ConductEnded(finish="limit", turns=1, calls=2),
    ]
    conversation = await conduct(model, run.conversation.say("Go on."), ensembles=found)
    assert conversation.text == "Done."


async def test_a_loop_is_stopped_when_it_gets_nowhere() -> None:
    model = scripted(invokes(invoke("look", path="x")))
    conversation = await conduct(model, "Go.", ensembles=[ensemble(tool("look"))])
    assert [fate for _, fate in fates(conversation.canisters)] == ["look", "look", "look", "!limit"]
    assert conversation.finish == "limit"


def in_virtual_time(monkeypatch: pytest.MonkeyPatch, run: Awaitable[Conversation]) -> Conversation:
    """Awaits a run whose time passes when nothing else happens."""

    async def wait() -> Conversation:
        return await run

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        monkeypatch.setattr("time.monotonic", runner.get_loop().time)
        return runner.run(wait())


def test_the_time_is_limited_while_the_model_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    blocking, recording = Blocking(), Recording()
    run = conduct(
        scripted([*invokes(invoke("look"))[:2], asyncio.Event().wait]),
        "Go.",
        ensembles=[ensemble(tool("look", blocking))],
        limits=Limits(wall=5),
        execution=Execution(recorder=recording),
    )
    conversation = in_virtual_time(monkeypatch, run)
    assert (conversation.finish, conversation.canisters) == ("limit", (UserCanister.of("Go."),))
    assert blocking.running == 0
    assert recording.stages[-2:] == [("discarded", "mine.look"), ("ended", "")]


def test_the_time_is_limited_while_tools_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scripted(invokes(invoke("look"), invoke("act")), says())
    run = conduct(
        model,
        "Go.",
        ensembles=[ensemble(tool("look", Blocking()), tool("act", effect="write"))],
        limits=Limits(wall=5),
        execution=Execution(rules=APPROVING),
    )
    conversation = in_virtual_time(monkeypatch, run)
    assert fates(conversation.canisters) == [("look", "!timeout"), ("act", "!limit")]
    assert (conversation.finish, len(model.asked)) == ("limit", 1)


async def test_the_time_begins_when_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ripieno.execution.budget.time.monotonic", lambda: now)
    run = conduct(scripted(says("Hi.")), "Go.", limits=Limits(wall=5))
    now += 60
    assert (await run).text == "Hi."


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


async def test_a_failure_that_nobody_asks_for_is_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async with conduct(scripted([TurnBegan(), ValueError("x")]), "Go.") as run:
        await settle_down()
    assert run.conversation.finish == "error"
    del run
    gc.collect()
    # Other tests' rubbish may be collected here, too: only the task of a run is listened for.
    assert [one.getMessage() for one in caplog.records if "ripieno run" in one.getMessage()] == []
