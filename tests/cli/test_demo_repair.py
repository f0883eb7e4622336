"""``ripieno demo --score repair``: an agent's work on a repository, under each tier, and an end that is looked at."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from frozendict import frozendict

from ripieno.assembly.configuration import Places, gather
from ripieno.canisters import Conversation, InvocationCanister
from ripieno.cli.common import exit_codes
from ripieno.cli.demo.play_repair import Repair
from ripieno.cli.demo.scores import find_score, wanted_ensembles
from ripieno.exceptions import InputError
from ripieno.sandbox.detection import try_tier
from tests.support.command_line import User

WORK = ["git_clone", "run_command", "search", "read_file", "edit_file", "run_command", "git_diff", "git_commit"]


@pytest.mark.parametrize(("tier", "wire"), [(1, "anthropic"), (2, "openai-chat")])
def test_a_bug_is_mended_under_a_tier_or_the_reason_is_told(
    tier: int, wire: str, user: User, tmp_path: pathlib.Path
) -> None:
    # What the user has configured, broken or not, is not played.
    user.configure('[ensembles]\nenabled = ["nothing"]\n[sandbox]\nlevel = "off"\n[confirmation]\ndeny = ["*"]\n')
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    done = user.run("demo", "--score", "repair", "--sandbox", str(tier), "--protocol", wire, TMPDIR=str(rooms))
    found = try_tier(tier)
    # Nothing stays behind, in the workspace neither.
    assert list(rooms.iterdir()) == []
    assert list(user.workspace.iterdir()) == []
    if found.failure is not None:
        assert (tier, sys.platform) != (1, "linux"), found.failure
        assert done.returncode == exit_codes.REFUSED
        assert found.failure in done.stderr
        assert "===" not in done.stdout
        return
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    name = f"tier {tier} ({', '.join(found.parts)})"
    assert f"The programs of tools run under {name}." in lines
    called = [line.split()[1].rpartition(".")[2] for line in lines if line.startswith("> ")]
    assert [one for one in WORK if one in called] == WORK
    assert called[-1] == "submit"
    programs = [line for line in lines if line.startswith(("< git.", "< execution."))]
    assert len(programs) == 6
    assert all(name in line for line in programs)
    end = done.stdout.partition("looked at afterwards by git and by its tests:\n")[2].splitlines()
    commit = end[0].split()[0]
    assert end[0] == f"  {commit} Ripieno: Count a short bar at the end"
    assert end[1].endswith(" Somebody: A metronome")
    assert end[2:5] == [
        "  changed: metronome/bars.py; left to commit: nothing",
        "  tests of upstream: FAILED (failures=2) (ran 5 tests)",
        "  tests of metronome: OK (ran 5 tests)",
    ]
    assert end[5].startswith(f"It submitted: Mended in {commit} ")
    assert end[-1] == f"Every program of a tool ran under {name}."


def test_an_agent_that_only_believes_it_has_committed_is_found_out(user: User, tmp_path: pathlib.Path) -> None:
    real = shutil.which("git")
    assert real is not None
    folder = tmp_path / "programs"
    folder.mkdir()
    liar = folder / "git"
    # Only the tool commits without hooks: it is told that all is well, and nothing was committed.
    liar.write_text(
        f'#!/bin/sh\ncase " $* " in *" --no-verify "*) echo "[main 1234567] Done"; exit 0;; esac\nexec {real} "$@"\n'
    )
    liar.chmod(0o755)
    path = f"{folder}:{pathlib.Path(real).parent}:/usr/bin:/bin"
    done = user.run("demo", "--score", "repair", "--protocol", "anthropic", PATH=path)
    assert "[main 1234567] Done" in done.stdout
    assert done.returncode == exit_codes.REFUSED, done.stdout
    assert "The conversation over anthropic did not end as the score says." in done.stderr
    assert "There is not one commit over those of upstream." in done.stderr
    assert "There is something left to commit: [' M metronome/bars.py']." in done.stderr
    assert "control.submit" in done.stdout


async def test_each_fault_of_a_repository_is_told(tmp_path: pathlib.Path) -> None:
    repair = Repair()
    with repair.surround(tmp_path):
        await repair.prepare(tmp_path)
        nothing = await repair.look(tmp_path, Conversation())
        assert list(nothing.faults) == ["There is no metronome: nothing was cloned."]

        clone = tmp_path / "metronome"
        git(tmp_path, "clone", "--quiet", "upstream", "metronome")
        untouched = await repair.look(tmp_path, Conversation(finish="stop"))
        assert [one.partition(":")[0] for one in untouched.faults] == [
            "There is not one commit over those of upstream.",
            "What was committed is not metronome/bars.py alone",
            "The tests of metronome do not pass",
            "Nothing was submitted; it ended with 'stop'.",
            "What was submitted does not name the commit.",
        ]

        # Tests that are made to pass are no mended bug.
        tests = clone / "tests" / "test_bars.py"
        tests.write_text(tests.read_text().replace("(9, 4), 3)", "(9, 4), 2)"))
        (clone / "tests" / "test_tempo.py").unlink()
        git(clone, "commit", "--quiet", "--all", "--message=Done")
        cheated = await repair.look(tmp_path, submitted(git(clone, "log", "-1", "--format=%h")))
        assert list(cheated.faults) == [
            "What was committed is not metronome/bars.py alone: ['tests/test_bars.py', 'tests/test_tempo.py']."
        ]

        git(clone, "reset", "--quiet", "--hard", "origin/main")
        bars = clone / "metronome" / "bars.py"
        bars.write_text(bars.read_text().replace("beats // per_bar\n", "-(-beats // per_bar)\n"))
        git(clone, "commit", "--quiet", "--all", "--message=Mended")
        good = await repair.look(tmp_path, submitted(git(clone, "log", "-1", "--format=%h")))
        assert list(good.faults) == []
        (clone / "more").write_text("")
        left = await repair.look(tmp_path, submitted(git(clone, "log", "-1", "--format=%h")))
        assert list(left.faults) == ["There is something left to commit: ['?? more']."]
        repair.clear(tmp_path)
        assert os.listdir(tmp_path) == ["upstream"]


async def test_without_git_it_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no git in PATH"):
        await Repair().prepare(tmp_path)


def test_another_score_is_not_played(user: User) -> None:
    done = user.call("demo", "--score", "repai")
    assert done.returncode == exit_codes.INPUT
    assert "Did you mean 'repair'?" in done.stderr


def test_whoever_rehearses_it_is_told_of_bundled_ensembles_only(tmp_path: pathlib.Path) -> None:
    gathered = gather(
        {"ensembles": {"enabled": list(Repair.ensembles)}},
        places=Places(configuration=tmp_path / "configuration", state=tmp_path / "state"),
    )
    wanted = wanted_ensembles(find_score("repair"), gathered)
    assert {one.name for one in wanted} == set(Repair.ensembles)
    assert all(one.folder is None for one in wanted)


def git(folder: pathlib.Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    # Whoever runs the tests may have settings of their own.
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def submitted(commit: str) -> Conversation:
    answer = InvocationCanister(
        identifier="call_1", name="submit", arguments=frozendict({"answer": f"Mended in {commit}."})
    )
    return Conversation(finish="terminal", submission=answer)
