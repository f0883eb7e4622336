"""The ten lines that most applications need, over real HTTP, with nothing but a table for the provider."""

import io
import pathlib
from collections.abc import AsyncIterator

import pytest

import ripieno
from ripieno.assembly.configuration import Places
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.servers.http.server import serve
from ripieno.testing import call, turn
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score

SCORE = Score.of_turns(
    (
        turn("I read it.", calls=[call("read_file", "it", path="README.rst")]),
        turn("It says: {it}"),
        turn("Somebody."),
    ),
    continues=True,
)


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serve(create_application(SCORE, [PROTOCOL])) as url:
        yield base_url(url, PROTOCOL)


def tables(address: str) -> dict[str, object]:
    return {"providers": {"house": {"protocol": "openai-chat", "base_url": address}}}


async def converse(configuration: dict[str, object], tmp_path: pathlib.Path, printed: io.StringIO) -> list[str]:
    """The program of the README; what differs is where it runs and where it prints."""
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    async with ripieno.assemble(configuration, workspace=tmp_path, places=places) as assembly:
        run = assembly.conduct("What is in README.rst?", model="house/small-1")
        async for event in run:
            ripieno.show(event, printed)
        conversation = await run
        texts = [conversation.text]
        conversation = await assembly.conduct(conversation.say("And who wrote it?"), model="house/small-1")
        return [*texts, conversation.text]


async def test_the_program_runs(address: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "README.rst").write_text("Ripieno\n=======\n")
    printed = io.StringIO()
    assert await converse(tables(address), tmp_path, printed) == ["It says: Ripieno\n=======\n", "Somebody."]
    assert "io.read_file" in printed.getvalue()


async def test_a_deny_in_the_configuration_is_obeyed(address: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "README.rst").write_text("Ripieno\n=======\n")
    configuration = {**tables(address), "confirmation": {"deny": ["io.read_file"]}}
    printed = io.StringIO()
    first, second = await converse(configuration, tmp_path, printed)
    assert "Ripieno" not in first
    assert "denied" in first
    assert second == "Somebody."
