"""Reasoning that no provider requires back: it is recorded for people, and no provider gets it."""

import pathlib
from collections.abc import Sequence

import pytest

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    Controls,
    Conversation,
    OpaqueContent,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.events import Alert, ContentSealed, ReasoningDelta, TextDelta, TurnBegan, TurnEnded
from ripieno.conducting import conduct
from ripieno.ensembles.offers import Offer
from ripieno.execution import Execution
from ripieno.jsonvalues import freeze
from ripieno.models.protocol import Request
from ripieno.models.reasoning import PEOPLE, reasoning_in
from ripieno.storage.journal import Journal
from ripieno.testing import model_of, turn
from tests.support.runs import collected
from tests.support.scripted_models import ensemble, invoke, invokes, says, scripted, tool

SECRET = "a secret of some length"


def thinks(*pieces: str) -> list[TurnBegan | ReasoningDelta]:
    return [TurnBegan(), *map(ReasoningDelta, pieces)]


def contents_of(canisters: Sequence[Canister]) -> list[Content]:
    return [content for one in canisters if isinstance(one, AssistantCanister) for content in one.content]


def read_by_people(canisters: Sequence[Canister]) -> list[str]:
    return [reasoning_in(one) for one in contents_of(canisters) if isinstance(one, OpaqueContent)]


async def test_it_is_recorded_before_what_it_led_to(place: pathlib.Path | str) -> None:
    turns = (
        [*thinks("I should ", "look."), *invokes(invoke("look"))[1:]],
        [*thinks("It is ", "there."), *says("Found.")[1:]],
        [*thinks("Nothing to add."), TurnEnded(finish="stop")],
    )
    model, tools = scripted(*turns), [ensemble(tool("look"))]
    conversation = Conversation(identifier="c").say("Go.")
    with Journal(place) as journal:
        for _ in range(2):
            run = conduct(model, conversation, ensembles=tools, execution=Execution(recorder=journal))
            conversation = (await run).say("Go on.")
        restored = journal.restore("c").conversation.canisters
        assert restored == conversation.canisters[:-1]
        assert read_by_people(restored) == ["I should look.", "It is there.", "Nothing to add."]
        # The reasoning of a turn is in its answer, before the text.
        assert [type(one) for one in contents_of(restored)][1:3] == [OpaqueContent, TextualContent]


async def test_secrets_in_it_are_hidden_as_everywhere(place: pathlib.Path | str) -> None:
    with Journal(place, secrets=[SECRET]) as journal:
        run = conduct(
            scripted([*thinks("It is ", SECRET[:9], SECRET[9:], "."), *says()[1:]]),
            Conversation(identifier="c").say("Go."),
            execution=Execution(recorder=journal),
        )
        await run
        (reasoning,) = read_by_people(journal.restore("c").conversation.canisters)
        assert reasoning.startswith("It is [secret")
        assert not any(SECRET in (line.body or "") for line in journal.lines("c"))


async def test_it_is_bounded() -> None:
    conversation = await conduct(scripted([*thinks(*["x" * 10_000] * 7), *says()[1:]]), "Go.")
    assert read_by_people(conversation.canisters) == ["x" * 60_000 + "\n… (10000 more characters)"]


async def test_reasoning_that_its_wire_keeps_is_kept_once() -> None:
    kept = OpaqueContent(protocol="scripted", kind="thinking", data=freeze({"thinking": "Hm."}))
    text = [TextDelta("Yes."), ContentSealed(TextualContent(text="Yes."))]
    # Some wires seal it after the text has come.
    for steps in ([ContentSealed(kept), *text], [text[0], ContentSealed(kept), text[1]]):
        conversation = await conduct(scripted([*thinks("Hm."), *steps, TurnEnded(finish="stop")]), "Go.")
        assert contents_of(conversation.canisters) == [kept, TextualContent(text="Yes.")]


@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "openai-chat", "openai-responses"])
async def test_no_provider_gets_it_and_nothing_is_said_of_it(protocol: str) -> None:
    model = model_of([turn("No.")], protocol=protocol)
    own = OpaqueContent(protocol=PEOPLE, kind="reasoning", data=freeze({"text": "Between us."}))
    said = AssistantCanister(content=(own, TextualContent(text="Yes.")))
    canisters = (UserCanister.of("Go."), said, UserCanister.of("Go on."))
    request = Request(model=model.name, canisters=canisters, offer=Offer(()), controls=Controls(), capabilities={})
    body = model.provider.protocol.request(request)
    assert b"Yes." in body
    assert b"Between us." not in body
    assert not model.sends(own)
    assert not any(isinstance(one, Alert) for one in await collected(conduct(model, canisters)))
