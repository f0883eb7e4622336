"""A single name or text where a program may give several: it is not read letter by letter."""

import pathlib
from typing import Any

import pytest

import ripieno
from ripieno.exceptions import AssemblyFailure, NameAbsence
from ripieno.storage.redaction import Redactor
from ripieno.testing import model_of, turn
from ripieno.testing.cassettes import Recorder, Replay
from tests.support.command_line import User

SECRET = "zebra-7781-quilt"


@pytest.mark.parametrize("own", [True, False])
async def test_patterns_of_tools(user: User, own: bool) -> None:
    async with ripieno.assemble({"ensembles": ["io"]}, places=user.places) as assembly:

        async def answer(tools: str) -> str:
            model = model_of([turn("Yes.")])
            given: dict[str, Any] = {"ensembles": assembly.ensembles, "tools": tools}
            run = assembly.conduct("Hi.", model=model, tools=tools) if own else ripieno.conduct(model, "Hi.", **given)
            return (await run).text

        assert await answer("io.read_*") == "Yes."
        with pytest.raises(NameAbsence, match=r"no tool named 'io\.red_file'"):
            await answer("io.red_file")


async def test_names_of_ensembles_are_a_list(user: User) -> None:
    with pytest.raises(AssemblyFailure) as caught:
        await ripieno.prepare_ensembles({"ensembles": "io"}, places=user.places)
    assert 'a list of ensembles, not the string "io"' in caught.value.text


def test_secrets(tmp_path: pathlib.Path) -> None:
    assert Redactor(SECRET).text(f"<{SECRET}>") == "<[hidden]>"
    path = tmp_path / "run.jsonl"
    recorder = Recorder(path, secrets=SECRET, variables={})
    recorder.note("text", f"<{SECRET}>")
    recorder.close()
    assert SECRET not in path.read_text()
    replay = Replay(path, secrets=SECRET, variables={})
    assert replay.note("text") == "<[hidden]>"


def test_what_a_turn_expects() -> None:
    assert turn(expect="the sum").expect == ("the sum",)
