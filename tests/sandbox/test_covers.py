"""The covers of missing protected paths: who removes them, and when."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from ripieno.sandbox.covers import Covers
from tests.support.sandbox_tiers import shelter, start

pytestmark = pytest.mark.usefixtures("above")

#: What tier 2 covers in a folder that is empty.
COVERS = [".git", "ensembles", "ripieno.lock.toml", "ripieno.toml"]
#: An application that is killed after its first program has run.
KILLED = """
import asyncio, os, pathlib, signal, sys
from tests.support.sandbox_tiers import shelter, start
folder = pathlib.Path(sys.argv[1])
sandbox = shelter("tier 2", folder)
asyncio.run(start(["true"], sandbox.confinement(writable=[folder]), folder))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def kill_one(workspace: pathlib.Path, above: pathlib.Path) -> None:
    shelter("tier 2", workspace).close()
    environment = {**os.environ, "TMPDIR": str(above), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(workspace)], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL


def names(folder: pathlib.Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_next_start_removes_those_of_a_killed_application(workspace: pathlib.Path, above: pathlib.Path) -> None:
    kill_one(workspace, above)
    assert names(workspace) == COVERS
    # What has content by now is the user's.
    (workspace / "ripieno.toml").write_text("mine")
    (workspace / "ensembles" / "mine").mkdir()
    sandbox = shelter("tier 2", workspace)
    assert names(workspace) == ["ensembles", "ripieno.toml"]
    sandbox.close()
    assert not [name for name in os.listdir(above) if name.startswith("ripieno-covers-")]


async def test_they_go_with_the_last_program_of_an_application(workspace: pathlib.Path) -> None:
    sandbox = shelter("tier 2", workspace)
    for _ in range(2):
        with sandbox.running(), sandbox.running():
            confinement = sandbox.confinement(writable=[workspace])
            ended = await start(["sh", "-c", "ls -A; echo evil > ripieno.toml"], confinement, workspace)
            assert ended.stdout.text.split() == COVERS
            assert names(workspace) == COVERS
        assert names(workspace) == []
    # What the user adds meanwhile is protected as it is.
    (workspace / "ripieno.toml").write_text("mine")
    with sandbox.running():
        await start(["sh", "-c", "echo evil > ripieno.toml"], sandbox.confinement(writable=[workspace]), workspace)
    assert (names(workspace), (workspace / "ripieno.toml").read_text()) == (["ripieno.toml"], "mine")
    sandbox.close()


async def test_they_stay_while_another_application_needs_them(workspace: pathlib.Path, above: pathlib.Path) -> None:
    """Without its mount point, a running program could write what is protected."""
    kill_one(workspace, above)
    first, second = shelter("tier 2", workspace), shelter("tier 2", workspace)
    for name in ("began", "go"):
        os.mkfifo(workspace / name)
    script = "echo > began; read line < go; (echo evil > ripieno.toml) 2>/dev/null; echo done"
    await start(["true"], first.confinement(writable=[workspace]), workspace)
    running = asyncio.create_task(start(["sh", "-c", script], second.confinement(writable=[workspace]), workspace))
    await asyncio.to_thread((workspace / "began").read_text)
    first.close()
    shelter("tier 2", workspace).close()
    await asyncio.to_thread((workspace / "go").write_text, "go\n")
    assert (await running).stdout.text == "done\n"
    assert names(workspace) == sorted([*COVERS, "began", "go"])
    second.close()
    assert names(workspace) == ["began", "go"]


def test_what_is_no_list_of_this_user_removes_nothing(workspace: pathlib.Path, above: pathlib.Path) -> None:
    (workspace / "empty").touch()
    (workspace / "led").symlink_to(above)
    (above / "inner").touch()
    covers = Covers(str(workspace))
    covers.note([f"{workspace}/missing"])
    (path,) = above.glob("ripieno-covers-*")
    with path.open("a") as file:
        file.write(f'"{above}/inner"\n"{workspace}/led/inner"\n"{workspace}/emp')
    covers.close()
    assert (names(above), names(workspace)) == (["inner"], ["empty", "led"])
    path.write_text(f'"{workspace}/empty"\n')
    path.chmod(0o666)
    covers = Covers(str(workspace))
    covers.note([f"{workspace}/missing"])
    assert covers.absent == [f"{workspace}/missing"]
    (workspace / "missing").touch()
    covers.close()
    assert names(workspace) == ["empty", "led"]
    path.chmod(0o600)
    Covers(str(workspace))
    assert (names(above), names(workspace)) == (["inner"], ["led"])
