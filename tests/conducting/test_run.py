"""Runs: their events in order, their conversation, and ways to iterate and await them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ripieno.canisters import AssistantCanister, Conversation, SupervisorCanister, UserCanister
from ripieno.canisters.conversation import Usage
from ripieno.canisters.events import ConductEnded, Event, ResultReady, TextDelta, TurnBegan, TurnEnded
from ripieno.conducting import channel, conduct
from ripieno.ensembles import Context
from ripieno.exceptions import UsageError
from tests.support.runs import collected, kinds
from tests.support.scripted_models import (
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

# Events and the conversation.


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
