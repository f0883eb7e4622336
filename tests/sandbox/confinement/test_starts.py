"""Programs that a sandbox cannot start, which is never taken for an end of their own."""

import signal
from pathlib import Path

import pytest

from ripieno.exceptions import ResourceFault
from ripieno.sandbox import ProcessLimits, Sandbox
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment
from tests.support.sandbox_tiers import SHELTERS, shelter
from tests.support.sandbox_tiers import start as start_confined
from tests.toolset.bundled_tools import write_program

ALL = pytest.mark.parametrize("name", SHELTERS)
TIERS = pytest.mark.parametrize("name", ["tier 1", "tier 2"])
#: What bubblewrap writes when it cannot start a program, written by a program that it has started.
SHAM = "#!/bin/sh\necho 'bwrap: execvp sham: No such file or directory' >&2\nexit 1\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def start(argv: list[str], sandbox: Sandbox, workspace: Path) -> Completed:
    return await start_confined(argv, sandbox.confinement(writable=[workspace]), workspace)


@ALL
async def test_a_program_whose_interpreter_is_hidden_is_not_started(
    name: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    interpreter = write_program(tmp_path / "home" / "interpreter", "#!/bin/sh\n. $1\n")
    write_program(workspace / "hidden", f"#!{interpreter}\necho it ran\n")
    write_program(workspace / "missing", f"#!{tmp_path}/missing\n")
    sandbox = shelter(name, workspace)
    for one in ("hidden", "missing"):
        with pytest.raises(ResourceFault, match=f"'./{one}'.*(the sandbox|interpreter)") as caught:
            await start([f"./{one}"], sandbox, workspace)
        assert caught.value.code == "not_started"
    sandbox.close()
    granted = shelter(name, workspace, readable=(str(interpreter.parent),))
    assert (await start(["./hidden"], granted, workspace)).stdout.text == "it ran\n"
    granted.close()


@ALL
async def test_a_file_without_permission_is_not_started(name: str, workspace: Path) -> None:
    (workspace / "text").write_text("echo it ran\n")
    sandbox = shelter(name, workspace)
    with pytest.raises(ResourceFault, match=r"'./text' may not be executed\.") as caught:
        await start(["./text"], sandbox, workspace)
    assert (caught.value.code, caught.value.suggestion) == (
        "not_started",
        "It must be a file with execute permission.",
    )
    sandbox.close()


@ALL
async def test_what_a_program_writes_and_its_exit_code_stay_its_own(name: str, workspace: Path) -> None:
    write_program(workspace / "sham", SHAM)
    sandbox = shelter(name, workspace)
    completed = await start(["./sham"], sandbox, workspace)
    assert (completed.exit_code, completed.stderr.text) == (1, SHAM.splitlines()[1].split("'")[1] + "\n")
    sandbox.close()


@TIERS
async def test_a_program_that_is_ended_at_once_was_not_refused(name: str, workspace: Path) -> None:
    sandbox = shelter(name, workspace)
    process = await LocalSpawner().start(
        ["sleep", "600"],
        clean_environment(),
        workspace,
        ProcessLimits(grace=0),
        confinement=sandbox.confinement(writable=[workspace]),
    )
    async with process:
        process.signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
    sandbox.close()


@TIERS
async def test_a_linked_folder_of_path_leads_to_what_the_sandbox_shows(
    name: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link itself is not in tier 2, as where a PATH has /run/current-system/sw/bin."""
    real = write_program(tmp_path / "real" / "greet", "#!/bin/sh\necho hello\n")
    (tmp_path / "link").symlink_to(real.parent)
    monkeypatch.setenv("PATH", f"{tmp_path}/link:/usr/bin:/bin")
    sandbox = shelter(name, workspace)
    for one in ("greet", f"{tmp_path}/link/greet"):
        assert (await start([one], sandbox, workspace)).stdout.text == "hello\n"
    assert sandbox.shows(f"{tmp_path}/link/greet")
    sandbox.close()


@TIERS
async def test_a_link_through_a_hidden_folder_is_followed_in_tier_1_only(
    name: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    real = write_program(tmp_path / "real" / "greet", "#!/bin/sh\necho hello\n")
    for folder in ("home", "shown"):
        (tmp_path / folder).mkdir()
    (tmp_path / "home" / "current").symlink_to(real.parent)
    (tmp_path / "shown" / "greet").symlink_to(tmp_path / "home" / "current" / "greet")
    monkeypatch.setenv("PATH", f"{tmp_path}/shown:{tmp_path}/real:/usr/bin:/bin")
    sandbox = shelter(name, workspace)
    shown = f"{tmp_path}/shown/greet"
    assert sandbox.shows(shown) is (name == "tier 1")
    if name == "tier 1":
        assert (await start([shown], sandbox, workspace)).stdout.text == "hello\n"
    else:
        with pytest.raises(ResourceFault, match="the sandbox does not permit reading it"):
            await start([shown], sandbox, workspace)
    # The next folder of PATH has it, too.
    assert (await start(["greet"], sandbox, workspace)).stdout.text == "hello\n"
    sandbox.close()
