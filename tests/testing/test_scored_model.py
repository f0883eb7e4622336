"""Scores as models, conducted with real tools."""

import dataclasses
import pathlib

from ripieno.assembly.configuration import Places
from ripieno.assembly.shortcuts import prepare_ensembles
from ripieno.canisters import Controls, TextualContent, UserCanister
from ripieno.conducting import conduct
from ripieno.descriptors import Policy
from ripieno.ensembles import Ensemble
from ripieno.exceptions import ResourceFault
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


async def test_a_tool_that_is_missing_or_forbidden_is_said(tmp_path: pathlib.Path) -> None:
    model = model_of(READING)
    expected = "Turn 1 of the score calls 'read_file', which is not offered. Offered: none."
    assert (await conduct(model, "Read.")).text == expected
    for controls in (Controls(tool_choice="none"), Controls(allowed_tools=())):
        conversation = await conduct(model, "Read.", ensembles=[reader(tmp_path)], controls=controls)
        assert conversation.text == expected


async def test_a_model_plays_a_score_from_anywhere() -> None:
    score = Score.of({"score": {"name": "short"}, "turns": [{"text": "Hello."}]})
    model = model_of(score)
    assert model.identity == "score/short"
    (canister,) = await model.converse([UserCanister(content=(TextualContent(text="Hi."),))])
    assert canister == dataclasses.replace(canister, content=(TextualContent(text="Hello."),))
