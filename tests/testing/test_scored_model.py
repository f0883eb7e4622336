"""Scores as models, conducted with real tools."""

import dataclasses
import pathlib
from collections.abc import Sequence

import pytest

from ripieno.assembly.configuration import Places
from ripieno.assembly.shortcuts import prepare_ensembles
from ripieno.canisters import Controls, TextualContent, UserCanister
from ripieno.canisters.events import (
    ConductEnded,
    Event,
    ExecutionBegan,
    ReasoningDelta,
    ResultReady,
    TextDelta,
    TurnBegan,
)
from ripieno.conducting import conduct
from ripieno.descriptors import Policy
from ripieno.ensembles import Ensemble
from ripieno.exceptions import ConfigurationInvalidity, ResourceFault
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of


def reader(folder: pathlib.Path) -> Ensemble:
    """An ensemble with a tool that really reads files."""

    def read_file(path: str) -> str:
        """Reads a file."""
        try:
            return (folder / path).read_text()
        except FileNotFoundError:
            raise ResourceFault(f"There is no {path}.") from None

    return Ensemble.of_functions("mine", [read_file], policy=Policy(effect="read"))


READING = [
    turn("I look.", calls=[call("read_file", "readme", path="README.rst")]),
    turn("It begins with {readme.line:1}"),
]


async def test_the_ten_lines(tmp_path: pathlib.Path) -> None:
    """What the module's docstring shows, with bundled tools and nothing of this user's."""
    (tmp_path / "README.rst").write_text("Ripieno\n=======\n")
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    async with prepare_ensembles(workspace=tmp_path, places=places) as ensembles:
        conversation = await conduct(model_of(READING), "What is in it?", ensembles=ensembles)
    assert conversation.text == "It begins with Ripieno"
    assert conversation.finish == "stop"


async def test_an_error_is_mended(tmp_path: pathlib.Path) -> None:
    (tmp_path / "right").write_text("here\n")
    model = model_of(
        [
            turn(calls=[call("read_file", "first", path="wrong")]),
            turn("{first.error} So:", on_error="first", calls=[call("read_file", "second", path="right")]),
            turn("{second}", expect=["second"]),
        ]
    )
    events = [event async for event in conduct(model, "Read.", ensembles=[reader(tmp_path)])]
    results = [event.result.text for event in events if isinstance(event, ResultReady)]
    assert results == ["Error: There is no wrong.", "here\n"]
    assert said(events) == ["", "There is no wrong. So:", "here\n"]


def said(events: Sequence[Event]) -> list[str]:
    texts: list[str] = []
    for event in events:
        if isinstance(event, TurnBegan):
            texts.append("")
        elif isinstance(event, TextDelta):
            texts[-1] += event.text
    return texts


async def test_calls_start_while_the_model_still_streams(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").write_text("B")
    model = model_of(
        [
            turn(
                calls=[call("read_file", "one", path="a"), call("read_file", "two", path="b")],
                reasoning="Both at once.",
                pace=0.001,
            ),
            turn("{one}{two}"),
        ]
    )
    run = conduct(model, "Read.", ensembles=[reader(tmp_path)])
    events = [event async for event in run]
    assert (await run).text == "AB"
    assert [event.early for event in events if isinstance(event, ExecutionBegan)] == [True, True]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Both at once."
    last = events[-1]
    assert isinstance(last, ConductEnded)
    assert (last.turns, last.calls) == (2, 2)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "openai-chat", "openai-responses"])
async def test_every_wire_sends_reasoning(protocol: str, stream: bool) -> None:
    model = model_of([turn("Yes.", reasoning="I should look. " * 3)], protocol=protocol)
    run = conduct(model, "Go.", controls=Controls(stream=stream))
    events = [event async for event in run]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "I should look. " * 3
    assert (await run).text == "Yes."


async def test_streamed_and_whole_say_the_same(tmp_path: pathlib.Path) -> None:
    (tmp_path / "README.rst").write_text("A first line that is longer than one piece\n")
    conversations = []
    for stream in (True, False):
        run = conduct(model_of(READING), "Read.", ensembles=[reader(tmp_path)], controls=Controls(stream=stream))
        events = [event async for event in run]
        pieces = [event for event in events if isinstance(event, TextDelta)]
        assert (len(pieces) > 2) is stream
        conversations.append((await run).canisters)
    assert conversations[0] == conversations[1]


async def test_a_tool_that_is_missing_or_forbidden_is_said(tmp_path: pathlib.Path) -> None:
    model = model_of(READING)
    expected = "Turn 1 of the score calls 'read_file', which is not offered. Offered: none."
    assert (await conduct(model, "Read.")).text == expected
    for controls in (Controls(tool_choice="none"), Controls(allowed_tools=())):
        conversation = await conduct(model, "Read.", ensembles=[reader(tmp_path)], controls=controls)
        assert conversation.text == expected


async def test_a_conversation_begins_again_or_goes_on(tmp_path: pathlib.Path) -> None:
    for continues, expected in ((False, "One."), (True, "Two.")):
        model = model_of([turn("One."), turn("Two.")], continues=continues)
        conversation = await conduct(model, "First.")
        assert conversation.text == "One."
        assert (await conduct(model, conversation.say("Second."))).text == expected


async def test_a_model_plays_a_score_from_anywhere() -> None:
    score = Score.of({"score": {"name": "short"}, "turns": [{"text": "Hello."}]})
    model = model_of(score)
    assert model.identity == "score/short"
    (canister,) = await model.converse([UserCanister(content=(TextualContent(text="Hi."),))])
    assert canister == dataclasses.replace(canister, content=(TextualContent(text="Hello."),))


def test_wrong_turns_are_told_at_once() -> None:
    with pytest.raises(ConfigurationInvalidity, match="Did you mean 'readme'"):
        model_of([READING[0], turn("{raedme}")])
