"""``ripieno demo --score repair``: an agent's work on a repository, under each tier, and an end that is looked at."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.canisters import Conversation
from ripieno.cli.common import exit_codes
from ripieno.cli.common.scores import find_score
from ripieno.cli.demo.rehearse import wanted_ensembles
from ripieno.cli.demo.workspace import examine, prepare
from ripieno.exceptions import InputError
from ripieno.sandbox.detection import try_tier
from ripieno.storage.places import Places
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
    assert f"Programs run in the sandbox: {name}." in lines
    called = [line.split()[1].rpartition(".")[2] for line in lines if line.startswith("> ")]
    assert [one for one in WORK if one in called] == WORK
    assert called[-1] == "submit"
    programs = [line for line in lines if line.startswith(("< git.", "< execution."))]
    assert len(programs) == 6
    assert all(name in line for line in programs)
    assert f"    Sandbox of the programs: {name}." in lines
    end = done.stdout.partition("The workspace at the end:\n")[2].splitlines()
    assert end[:3] == [
        "  $ git log '--format=%an: %s' (in metronome): exit code 0",
        "    Ripieno: Count a short bar at the end",
        "    Author: A metronome",
    ]
    assert "    FAILED (failures=2)" in end
    assert "  $ git status --porcelain (in metronome): exit code 0, no output" in end
    assert end[-1] == "1 of 1 conversations ended as the score 'repair' expects."


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
    assert "$ git log '--format=%an: %s' (in metronome) wrote 'Author: A metronome', not 'Ripieno: Count" in done.stderr
    assert "$ git status --porcelain (in metronome) wrote 'M metronome/bars.py', not ''." in done.stderr
    assert done.stdout.endswith("0 of 1 conversations ended as the score 'repair' expects.\n")
    assert "control.submit" in done.stdout


async def test_a_repository_that_was_never_cloned_is_reported(tmp_path: pathlib.Path) -> None:
    score = find_score("repair")
    await prepare(score, tmp_path)
    _, nothing = await examine(score, tmp_path, Conversation())
    assert nothing[0] == "The conversation ended with None, not with 'terminal'."
    assert "$ git status --porcelain (in metronome) cannot run: there is no such folder." in nothing


async def test_tests_that_are_changed_until_they_pass_are_no_fixed_bug(tmp_path: pathlib.Path) -> None:
    score, clone = find_score("repair"), tmp_path / "metronome"
    await prepare(score, tmp_path)
    git(tmp_path, "clone", "--quiet", "upstream", "metronome")
    file = clone / "tests" / "test_bars.py"
    file.write_text(file.read_text().replace("(9, 4), 3)", "(9, 4), 2)"))
    (clone / "tests" / "test_tempo.py").unlink()
    git(clone, "commit", "--quiet", "--all", "--message=Count a short bar at the end")
    _, found = await examine(score, tmp_path, Conversation(finish="terminal"))
    faults = [one for one in found if "in metronome" in one and "%h" not in one]
    assert [one.partition(" (in")[0] for one in faults] == ["$ git diff --name-only --no-ext-diff origin/main HEAD"]


async def test_without_git_it_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"'repair' cannot be prepared\. There is no program 'git'"):
        await prepare(find_score("repair"), tmp_path)


def test_whoever_rehearses_it_is_told_of_bundled_ensembles_only(tmp_path: pathlib.Path) -> None:
    score = find_score("repair")
    loaded = load_configuration(
        score.setup.configuration, places=Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    )
    wanted = wanted_ensembles(score, loaded)
    assert {one.name for one in wanted} == set(score.setup.configuration["ensembles"]["enabled"])
    assert not any(one.added for one in wanted)


def git(folder: pathlib.Path, *words: str) -> None:
    identity = ["-c", "user.name=Ripieno", "-c", "user.email=a@localhost"]
    # Whoever runs the tests may have settings of their own.
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True)
