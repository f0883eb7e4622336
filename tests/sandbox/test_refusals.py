"""What is said of paths that a program could not read, and of repositories that it changed or could not change."""

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ripieno.ensembles import Context
from ripieno.execution.call import settle
from ripieno.origins.command.outcomes import failure
from ripieno.origins.command.programs import run
from ripieno.sandbox.processes import LocalSpawner
from ripieno.sandbox.refusals import explain, explain_unread
from tests.sandbox.test_git_files import ALL, WITH_MOUNTS, repository
from tests.skips import lacking
from tests.support.git_repositories import CLEAN, plain_git
from tests.support.live_processes import Outputs
from tests.support.sandbox_tiers import shelter
from tests.support.scripted_models import Listening
from tests.support.single_calls import begin
from tests.support.virtual_time import MovableClock

UNREAD = "[The sandbox does not grant programs to read: "


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """With a folder ``sub``, a file, and links that lead out and stay in; beside it is ``else``."""
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "some.py").write_text("x = 1\n")
    folder = tmp_path / "w"
    (folder / "sub").mkdir(parents=True)
    (folder / "inner.py").write_text("x = 1\n")
    (folder / "out").symlink_to("../else")
    (folder / "sub" / "a file").symlink_to(tmp_path / "else" / "some.py")
    (folder / "in").symlink_to("inner.py")
    (folder / "dangling").symlink_to("../missing")
    return folder


@pytest.fixture
def tool(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a script for a call, in a shelter; the exit code, and what a model reads."""

    async def call(
        script: str, *, name: str = "tier 1", directory: str = ".", late: bool = False, **wishes: Any
    ) -> tuple[int, str]:
        """``late``: the script does not end in its time."""
        clock, outputs = MovableClock(), Outputs(monkeypatch)
        if late:
            script = f"{script}; echo reached; sleep 600"
        listening = Listening(workspace)
        sandbox = shelter(name, workspace, **wishes)
        listening.surroundings = dataclasses.replace(listening.surroundings, spawner=LocalSpawner(), sandbox=sandbox)
        said: list[tuple[int, str]] = []

        async def invoke(context: Context, _: dict[str, Any]) -> object:
            environment = {**CLEAN, "HOME": sandbox.home}
            completed = await run(context, ["sh", "-c", script], directory=directory, environment=environment)
            said.append((completed.exit_code, str(failure("sh", completed, 65536))))
            return "done"

        one = begin(invoke, listening=listening, timeout=60)
        if late:
            await outputs.have(b"reached")
            await clock.move(60)
        await settle((one,))
        assert not (workspace / ".git" / "commondir").exists()
        sandbox.close()
        return said[0] if said else (-1, one.result.result().text)

    return call


@pytest.mark.parametrize(
    "script",
    [
        f"'{sys.executable}' -m pytest -q -p no:cacheprovider",
        f"'{sys.executable}' -m mypy --cache-dir=/dev/null .",
        "ls out",
        "cat out/some.py",
        "cp -r out/ copy",
        """python3 -c "open('out/some.py')" """,
        """node -e "fs.readdirSync('out')" """,
    ],
)
async def test_a_link_that_leads_out_is_named(script: str, tool: Callable[..., Any], tmp_path: Path) -> None:
    if script.startswith("node") and shutil.which("node") is None:
        lacking("there is no node here")
    code, said = await tool(script)
    assert code != 0
    assert f"{UNREAD}'out', a link to '{tmp_path}/else'. Leave it out, or ask the user: " in said
    assert "`[sandbox] readable` in the configuration grants it.]" in said


async def test_a_path_outside_is_named(tool: Callable[..., Any], tmp_path: Path) -> None:
    code, said = await tool(f"cat {tmp_path}/else/some.py")
    assert code == 1
    assert f"{UNREAD}'{tmp_path}/else/some.py'. Leave" in said
    code, said = await tool("cat 'a file'", directory="sub")
    assert f"{UNREAD}'sub/a file', a link to '{tmp_path}/else/some.py'. Leave" in said


async def test_each_reason_is_said_once(tool: Callable[..., Any], workspace: Path) -> None:
    (workspace / "ripieno.toml").write_text("")
    _, said = await tool("cat out/some.py; rm ripieno.toml; out/some.py")
    assert said.count("[The sandbox ") == 2
    assert said.count("[sandbox] readable") == 1
    assert "[The sandbox protects ripieno.toml from changes, because programs outside of it obey it." in said


async def test_what_is_granted_or_did_well_is_not_named(tool: Callable[..., Any], tmp_path: Path) -> None:
    code, said = await tool("cat out/some.py; echo out: Permission denied; exit 1", readable=(str(tmp_path / "else"),))
    assert (code, "x = 1" in said, "sandbox" in said) == (1, True, False)
    code, said = await tool("cat out/some.py; exit 0")
    assert (code, "The sandbox" in said) == (0, False)


def test_only_what_is_there_and_may_be_read_is_named(workspace: Path, tmp_path: Path) -> None:
    def told(written: str) -> str:
        return explain_unread(written, str(workspace), str(workspace), [str(workspace), "/usr"])

    for path in ("in", "inner.py", "dangling", "/usr/bin", "/proc/self/mem", "/missing/of/all", ".. / . ", "a\0out"):
        assert told(f"{path}: Permission denied") == "", path
    long = f"{'x' * 10_000}: Permission denied: {'/x' * 5_000}"
    for written in ("", "out", "out: No such file or directory", long, "out\nPermission denied"):
        assert told(written) == "", written
    if os.geteuid() != 0:
        (tmp_path / "else" / "some.py").chmod(0)
        assert told("out/some.py: Permission denied") == ""
    for number in range(5):
        (tmp_path / f"other{number}").mkdir()
    many = "".join(f"cat: ../other{number}: Permission denied\n" for number in range(5))
    assert told(many).count(f"'{tmp_path}/other") == 3
    assert ", and more. Leave it out" in told(many)
    assert told("out/some.py: Permission denied\n" * 10_000).count("'out'") == 1


# What is said of repositories.


@ALL
async def test_what_would_lead_git_elsewhere_is_removed(name: str, tool: Callable[..., Any], workspace: Path) -> None:
    repository(workspace)
    code, said = await tool("mkdir -p x; echo ../x > .git/commondir; exit 0", name=name)
    assert code == 0
    assert f"'{workspace}/.git/commondir' was removed" in said
    assert "first" in plain_git(workspace, "log")
    # Also when its time is up.
    _, said = await tool("echo ../x > .git/commondir", late=True, name=name)
    assert "did not finish within" in said
    _, said = await tool("true", name=name)
    assert "removed" not in said


async def test_why_git_cannot_begin_a_repository(tool: Callable[..., Any], workspace: Path) -> None:
    code, said = await tool("git init", name="tier 2")
    assert code == 128
    assert (
        "[The sandbox protects the settings and hooks in .git from changes, because programs outside of it obey them. "
        in said
    )
    code, said = await tool("git init part && exit 7", name="tier 2")
    assert code == 7
    assert "sandbox" not in said
    assert {"part", ".git"}.intersection(os.listdir(workspace)) == {"part"}


@WITH_MOUNTS
@pytest.mark.parametrize("end", ["", "; true"])
async def test_what_was_kept_of_a_repository_is_said_and_what_was_not(
    name: str, tool: Callable[..., Any], workspace: Path, end: str
) -> None:
    repository(workspace)
    repository(workspace / "part")
    code, said = await tool(f"rm -rf .git part{end}", name=name)
    assert sorted(os.listdir(workspace / ".git")) == ["config", "hooks", "info"]
    assert (code == 0) == bool(end)
    for place in (".git", "part/.git"):
        assert (
            f"[While this program ran, parts of the repository {place!r} were removed: HEAD, objects, refs. "
            "Tell the user.]" in said
        )
    if not end:
        assert "The rest of .git, including the history, is not protected." in said
    _, said = await tool("rm -rf .git; true", name=name)
    assert "removed:" not in said


@WITH_MOUNTS
async def test_a_loss_is_said_when_time_is_up(name: str, tool: Callable[..., Any], workspace: Path) -> None:
    repository(workspace)
    _, said = await tool("rm -rf .git/refs; echo done", late=True, name=name)
    assert "did not finish within" in said
    assert said.index("done") < said.index("parts of the repository '.git' were removed: refs.")


@ALL
async def test_what_git_does_with_a_repository_is_no_loss(name: str, tool: Callable[..., Any], workspace: Path) -> None:
    repository(workspace)
    code, said = await tool(
        "git checkout -q -b x && git commit -q --allow-empty -m second && git checkout -q main && "
        "git merge -q x && git branch -D x && git pack-refs --all && git gc -q --prune=now && git checkout -q --detach",
        name=name,
    )
    assert (code, "removed:" in said) == (0, False), said


def test_what_is_not_about_the_sandbox_is_not_explained() -> None:
    for text in ("", "/etc/x: Read-only file system", "cannot read .git/config", ".gitx: Device or resource busy"):
        assert explain(1, text) == ""
    assert "protects ripieno.toml, the settings and hooks in .git from changes" in explain(
        1, "a/.git/x: Read-only file system\n'ripieno.toml': Device or resource busy"
    )
    assert "history" not in explain(1, "'ripieno.toml': Device or resource busy")
    assert explain(126, "sh: cargo: not found") == explain(1, "sh: cargo: Permission denied") == ""
    assert "`[sandbox] readable`" in explain(126, "sh: cargo: Permission denied")
