"""What is said of paths that a program could not read: those that are there, and that nothing grants it."""

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
from ripieno.sandbox.refusals import explain_unread
from tests.skips import lacking
from tests.support.sandbox_tiers import shelter
from tests.support.scripted_models import Listening
from tests.support.single_calls import begin

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
def tool(workspace: Path) -> Callable[..., Any]:
    """Runs a script for a call at tier 1; the exit code, and what a model reads."""

    async def call(script: str, directory: str = ".", **wishes: Any) -> tuple[int, str]:
        listening = Listening(workspace)
        sandbox = shelter("tier 1", workspace, **wishes)
        listening.surroundings = dataclasses.replace(listening.surroundings, spawner=LocalSpawner(), sandbox=sandbox)
        said: list[tuple[int, str]] = []

        async def invoke(context: Context, _: dict[str, Any]) -> object:
            completed = await run(context, ["sh", "-c", script], directory=directory)
            said.append((completed.exit_code, str(failure("sh", completed, 65536))))
            return "done"

        await settle((one := begin(invoke, listening=listening, timeout=60),))
        sandbox.close()
        assert said, one.result.result().error
        return said[0]

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
