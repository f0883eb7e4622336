"""Runs from turn to turn: what is offered and allowed, and what changes in between."""

from typing import Any

import pytest

from ripieno.canisters import AssistantCanister, Controls, ResultCanister, UserCanister
from ripieno.canisters.events import Alert, ContentSealed, ResultReady, TurnBegan, TurnEnded
from ripieno.conducting import conduct
from ripieno.ensembles import Opened
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence
from ripieno.execution import Execution
from tests.support.runs import APPROVING, collected, says_text
from tests.support.scripted_models import ensemble, fates, invoke, invokes, says, scripted, tool

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
        model, "Go.", ensembles=[ensemble(tool("look"), tool("find"))], controls=Controls(allowed_tools=("find",))
    )
    assert fates(conversation.canisters) == [("look", "!denied"), ("find", "find")]
    assert model.asked[0][1].names == ("find", "look")


@pytest.mark.parametrize(("name", "advice"), [("mine.find", "Did you mean 'find'?"), ("nope", "Known: find, look.")])
async def test_an_allowed_tool_that_is_not_offered_is_told_before_anything_is_asked(name: str, advice: str) -> None:
    model = scripted(says())
    controls = Controls(allowed_tools=("look", name))
    run = conduct(model, "Go.", ensembles=[ensemble(tool("look"), tool("find"))], controls=controls)
    with pytest.raises(NameAbsence) as caught:
        await run
    assert str(caught.value) == f"There is no offered tool named {name!r}. {advice}"
    assert model.asked == []


async def test_an_allowed_tool_may_go_with_its_ensemble() -> None:
    found = ensemble(tool("look"), tool("gone"))

    def change() -> None:
        found._adopt(Opened(connection=None, definitions=(tool("look"),)))

    model = scripted(invokes(change, invoke("look")), invokes(invoke("gone")), says())
    conversation = await conduct(model, "Go.", ensembles=[found], controls=Controls(allowed_tools=("look", "gone")))
    assert conversation.finish == "stop"
    assert [controls.allowed_tools for _, _, controls in model.asked] == [("look", "gone"), ("look",), ("look",)]


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
        ("mine.find", "Not offered: yours.find already has its name.")
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


@pytest.mark.parametrize(("choice", "wanted"), [("required", "one of the tools"), ("look", "the tool look")])
async def test_a_model_that_must_call_and_does_not_is_asked_once_more(choice: str, wanted: str) -> None:
    model = scripted(says("I would rather not."), invokes(invoke("look", path="x")), says("Seen."))
    controls = Controls(tool_choice=choice)
    run = conduct(model, "Look.", ensembles=[ensemble(tool("look"))], controls=controls)
    alerts = [event.message async for event in run if isinstance(event, Alert)]
    conversation = await run
    assert any(f"did not call {wanted}" in alert for alert in alerts)
    assert [
        one.text if isinstance(one, AssistantCanister) else type(one).__name__ for one in conversation.canisters
    ] == ["UserCanister", "I would rather not.", "UserCanister", "", "InvocationCanister", "ResultCanister", "Seen."]
    assert conversation.finish == "stop"


async def test_a_model_that_will_not_call_is_not_asked_for_ever() -> None:
    model = scripted(says("No."), says("Never."))
    run = conduct(model, "Look.", ensembles=[ensemble(tool("look"))], controls=Controls(tool_choice="required"))
    alerts = [event.message async for event in run if isinstance(event, Alert)]
    conversation = await run
    assert (conversation.text, conversation.finish, len(model.asked)) == ("Never.", "stop", 2)
    # Both failures are told.
    assert alerts == [
        "score/scripted did not call one of the tools: it is asked once more.",
        "score/scripted did not call one of the tools after a second request, either: its answer is accepted.",
    ]


async def test_without_parallel_calls_one_of_a_message_is_run_whatever_the_wire_can_say() -> None:
    model = scripted(invokes(invoke("look", "a"), invoke("look", "b")), says())
    house = ensemble(tool("look"))
    conversation = await conduct(model, "Go.", ensembles=[house], controls=Controls(parallel=False))
    first, second = (one for one in conversation.canisters if isinstance(one, ResultCanister))
    assert first.error is None
    assert second.error is not None
    assert "Only one call per turn" in second.text
