"""Assemblies with a cassette: recorded with real tools, replayed with nothing, forked with real ones again."""

import pathlib

from ripieno.approvals import Approve, Deny
from ripieno.storage.places import Places
from ripieno.testing import call, turn
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.wires import model_of
from tests.support.scripted_models import Recording
from tests.testing.cassettes.test_replay import Answers, same

TURNS = (
    turn("I look.", calls=[call("read_file", "a", path="a.txt")]),
    turn("I write.", calls=[call("write_file", "b", path="b.txt", content="{a.line:1}")]),
    turn("It says {a.line:1}."),
)
CONFIGURATION = {"ensembles": {"enabled": ["io"]}, "agents": {"mine": {"instructions": "Be kind.", "tools": ["io.*"]}}}


async def test_an_assembly_is_recorded_replayed_and_forked(tmp_path: pathlib.Path) -> None:
    workspace, file = tmp_path / "workspace", tmp_path / "c"
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    workspace.mkdir()
    (workspace / "a.txt").write_text("the first line\n")
    before, after, asked = Recording(), Recording(), Answers(Approve())
    with Recorder(file, variables={}) as recording:
        assembly = recording.assemble(
            CONFIGURATION, workspace=workspace, places=places, confirmer=asked, recorder=before, secrets={}
        )
        async with assembly:
            recorded = await assembly.conduct("Go on.", model=model_of(TURNS), agent="mine")
    assert (workspace / "b.txt").read_text() == "the first line"
    assert asked.asked == 1
    (workspace / "a.txt").unlink()
    (workspace / "b.txt").unlink()

    # Nothing of it is needed any more; with the same words it is the same as without any.
    for configuration, what in (({}, None), (CONFIGURATION, "Go on.")):
        after.records.clear()
        assembly = Replay(file, variables={}).assemble(
            configuration, workspace=workspace, places=places, recorder=after, secrets={}
        )
        async with assembly:
            assert assembly.ensembles == ()
            replayed = await assembly.conduct(what, agent="mine")
        assert replayed == recorded
        assert same(after.records) == same(before.records)
        assert list(workspace.iterdir()) == []

    # After the first answer everything is live: somebody is asked, and says no.
    denied = Answers(Deny("Not now."))
    turns = [
        TURNS[0],
        turn("Now I write.", calls=[call("write_file", "b", path="c.txt", content="x")]),
        turn("Oh: {b.error}", on_error="b"),
    ]
    assembly = (
        Replay(file, variables={})
        .fork(1)
        .assemble(CONFIGURATION, workspace=workspace, places=places, confirmer=denied, secrets={})
    )
    async with assembly:
        forked = await assembly.conduct(model=model_of(turns), agent="mine")
    assert denied.asked == 1
    assert "denied" in forked.text
    assert forked.identifier != recorded.identifier
    assert list(workspace.iterdir()) == []
