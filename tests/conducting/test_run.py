"""Runs: their events in order, ways to iterate and await them, and what is offered and allowed in each turn."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.approvals import Approve, Deny
from ripieno.canisters import (
    AssistantCanister,
    Controls,
    Conversation,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import (
    Alert,
    ConductEnded,
    ContentSealed,
    Event,
    ResultReady,
    TextDelta,
    TurnBegan,
    TurnEnded,
)
from ripieno.conducting import channel, conduct
from ripieno.ensembles import Context, Opened
from ripieno.exceptions import ConfigurationInvalidity, JsonInvalidity, NameAbsence, UsageError
from ripieno.execution import Circumstances, Execution
from ripieno.testing import model_of, turn
from tests.support.golden_wires import PROTOCOLS
from tests.support.runs import APPROVING, collected, kinds, says_text
from tests.support.scripted_models import (
    Person,
    Scripted,
    Step,
    ensemble,
    fates,
    invoke,
    invokes,
    says,
    scripted,
    settle_down,
    tool,
)


async def test_a_run_gives_the_conversation() -> None:
    model = scripted(
        invokes(invoke("look", path="x"), usage=Usage(input_tokens=3)), says("Seen.", usage=Usage(output_tokens=2))
    )
    conversation = await conduct(model, "Look.", ensembles=[ensemble(tool("look"))])
    assert conversation.canisters[0] == UserCanister.of("Look.")
    called = [AssistantCanister, InvocationCanister, ResultCanister]
    assert [type(one) for one in conversation.canisters] == [UserCanister, *called, AssistantCanister]
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
        *("TurnBegan", "InvocationSealed", "ExecutionBegan", "ResultReady", "TurnEnded"),
        *("TurnBegan", "TextDelta", "ContentSealed", "TurnEnded", "ConductEnded"),
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
    with pytest.raises(UsageError, match="iterated only once"):
        await collected(run)
    awaited = conduct(scripted(says()), "Go.")
    await awaited
    with pytest.raises(UsageError, match="keeps no events"):
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
    assert len(passed) <= channel.BOUND + 1
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
    assert seen == [(times, first.identifier, turn, "aux") for times, turn in ((1, 1), (2, 2), (3, 4), (4, 5))]
    await conduct(model, "Another.", ensembles=found)
    assert seen[4][0] == 1
    assert second.namespaces == {"mine": {"times": 4}}


async def test_data_of_the_caller_is_frozen_and_other_objects_are_passed() -> None:
    seen: list[Any] = []

    async def look(context: Context, arguments: dict[str, Any]) -> str:
        seen.append(context.auxdata)
        return "x"

    handle = object()
    plain: dict[str, Any] = {"user": {"groups": ["a", {"b": [1]}]}, "handle": handle}
    itself: list[Any] = []
    itself.append(itself)
    for given in (plain, [plain], (plain,), handle):
        model = scripted(invokes(invoke("look", "a")), says())
        await conduct(model, "Go.", ensembles=[ensemble(tool("look", look))], auxdata=given)
    frozen = frozendict(user=frozendict(groups=("a", frozendict(b=(1,)))), handle=handle)
    assert seen == [frozen, (frozen,), (frozen,), handle]
    with pytest.raises(TypeError):
        seen[0]["user"]["name"] = "b"
    scope = Circumstances(auxdata=plain)
    assert (scope.auxdata, type(scope.auxdata["user"])) == (frozen, frozendict)
    with pytest.raises(JsonInvalidity, match="contains itself"):
        conduct(scripted(says()), "Go.", auxdata=itself)


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


async def test_models_may_be_made_of_any_events() -> None:
    """The least a model must say."""

    class Least(Scripted):
        async def batches(self, *details: Any, **more: Any) -> AsyncIterator[tuple[Event, ...]]:
            yield (TurnEnded(finish="stop"),)

    least = Least(provider=scripted().provider, name="least", turns=())
    conversation = await conduct(least, "Go.")
    assert conversation.canisters == (UserCanister.of("Go."), AssistantCanister())


async def test_who_continues_gives_one_of_three_things() -> None:
    for what in ("Go.", [UserCanister.of("Go.")], Conversation.of("Go.")):
        conversation = await conduct(scripted(says("Hi.")), what)
        assert [type(one) for one in conversation.canisters] == [UserCanister, AssistantCanister]


async def test_a_forced_choice_holds_for_the_first_turn() -> None:
    model = scripted(invokes(invoke("look")), invokes(invoke("look", "b")), says())
    await conduct(
        model, "Go.", ensembles=[ensemble(tool("look"))], controls=Controls(tool_choice="required", temperature=0.5)
    )
    assert [controls.tool_choice for _, _, controls in model.asked] == ["required", "auto", "auto"]
    assert {controls.temperature for _, _, controls in model.asked} == {0.5}


@pytest.mark.parametrize(
    ("controls", "found"),
    [
        (Controls(tool_choice="none"), "!denied"),
        (Controls(allowed_tools=("find",)), "find"),
        (Controls(tool_choice="find"), "find"),
        (Controls(tool_choice="find", allowed_tools=("look",)), "!denied"),
    ],
)
async def test_only_what_is_allowed_is_called_and_all_is_offered(controls: Controls, found: str) -> None:
    model = scripted(invokes(invoke("look"), invoke("find")), says())
    house = ensemble(tool("look"), tool("find"))
    conversation = await conduct(model, "Go.", ensembles=[house], controls=controls)
    assert fates(conversation.canisters) == [("look", "!denied"), ("find", found)]
    assert model.asked[0][1].names == ("find", "look")


async def test_other_tools_than_a_forced_one_may_be_called_after_its_turn() -> None:
    model = scripted(says(), invokes(invoke("look", "a")), invokes(invoke("look", "b")), says())
    house = ensemble(tool("look"), tool("find"))
    conversation = await conduct(model, "Go.", ensembles=[house], controls=Controls(tool_choice="find"))
    assert fates(conversation.canisters) == [("a", "!denied"), ("b", "look")]
    fault = next(one.error for one in conversation.canisters if isinstance(one, ResultCanister))
    assert fault is not None
    assert fault.message == "'look' may not be called in this turn; allowed: find."


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
        found.adopt(Opened(connection=None, definitions=(tool("look"),)))

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
        found.adopt(Opened(connection=None, definitions=(tool("look"), tool("new"), tool("find"))))

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


async def test_runs_of_one_execution_have_confirmers_of_their_own() -> None:
    execution = Execution(confirmer=Person(Deny("The execution's own.")))

    async def fate(person: Person | None) -> str:
        tools = [ensemble(tool("write", effect="write"))]
        model = scripted(invokes(invoke("write", "one")), says())
        conversation = await conduct(model, "Write.", ensembles=tools, execution=execution, confirmer=person)
        return fates(conversation.canisters)[0][1]

    found = await asyncio.gather(fate(Person(Approve())), fate(Person(Deny())), fate(None))
    assert found == ["write", "!denied", "!denied"]


@pytest.mark.parametrize("wire", PROTOCOLS)
async def test_who_watches_reads_a_text_as_it_comes_also_when_nobody_iterates(wire: str) -> None:
    heard: list[Event] = []
    run = conduct(model_of([turn("One two three four.")], protocol=wire, chunk=4), "Count.")
    run.watch(heard.append)
    await run
    texts = [event.text for event in heard if isinstance(event, TextDelta)]
    assert len(texts) > 1
    assert "".join(texts) == "One two three four."
    assert kinds(heard).index("TextDelta") < kinds(heard).index("ContentSealed")


def test_a_run_that_is_taken_for_a_coroutine_says_what_to_do() -> None:
    run = conduct(scripted(says("Hi.")), "Hello.")
    with pytest.raises(ValueError, match=r"await it, or iterate over it, in an async function"):
        asyncio.run(run)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", ["io", ["io"]])
def test_names_in_place_of_ensembles_are_refused_with_the_way_to_load_them(names: Any) -> None:
    with pytest.raises(UsageError, match=r"assemble\(\{'ensembles': \['io'\]\}\)"):
        conduct(scripted(says("Hi.")), "Hello.", ensembles=names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ensembles": [len]}, r"ensembles, not len\. For functions: Ensemble\.of_functions\("),
        ({"ensembles": len}, r"ensembles, not len\."),
        ({"what": 5}, r"with canisters, or from a conversation, not int: 5"),
        ({"what": ["Hello."]}, r"not str: 'Hello\.'"),
        ({"controls": {"stream": False}}, r"argument controls takes Controls, not dict: \{'stream': False\}"),
        ({"limits": 4}, r"argument limits takes Limits, not int: 4"),
        ({"model": "house/small"}, r"argument model takes Model, not str: 'house/small'"),
    ],
)
def test_values_of_other_classes_are_refused_with_what_is_expected(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        conduct(**{"model": scripted(says("Hi.")), "what": "Hello.", **arguments})
