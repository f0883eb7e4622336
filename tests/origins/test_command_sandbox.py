"""Programs as invocables where a sandbox holds: what they may write and reach, and what an operator may allow."""

import asyncio
import contextlib
import dataclasses
import pathlib
import re
import threading
from collections.abc import Iterator

import pytest

from ripieno.ensembles import Surroundings
from ripieno.exceptions import ExecutionFault, ResourceFault
from ripieno.sandbox import Sandbox
from ripieno.sandbox.changed_files import Look, WatchedFolder
from tests.skips import lacking
from tests.support.command_line import ROOT
from tests.support.toml_ensembles import call, make_ensemble, surround


@pytest.fixture
def surroundings(tmp_path: pathlib.Path) -> Iterator[Surroundings]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "outside").write_text("canary")
    sandbox = Sandbox(workspace)
    if sandbox.tier == 0:
        lacking(f"no sandbox is available here: {sandbox.reason}")
    yield dataclasses.replace(surround(workspace), sandbox=sandbox)
    sandbox.close()


async def run(
    surroundings: Surroundings,
    script: str,
    more: str = "confined = true",
    effect: str = "write",
    before: str = '"sh", "-c", ',
) -> str:
    text = f"""
        [ensemble]
        name = "it"
        [[invokers]]
        name = "run"
        description = "Runs a program"
        effect = "{effect}"
        [invokers.arguments]
        type = "object"
        [invokers.invocable]
        origin = "command"
        argv = [{before}'''{script}''']
        {more}
    """
    async with make_ensemble(text, surroundings) as ensemble:
        outcome = await call(ensemble, "run")
    return str(outcome.content)


async def test_who_only_reads_cannot_write(surroundings: Surroundings) -> None:
    (surroundings.workspace / "file").write_text("text")
    assert await run(surroundings, "cat file", effect="read") == "text"
    with pytest.raises(ExecutionFault):
        await run(surroundings, "echo x > file", effect="read")


async def test_a_program_that_has_ended_leaves_no_covers(surroundings: Surroundings) -> None:
    for script in ("ls -A", "ls -A; exit 3", "ls -A"):
        with contextlib.suppress(ExecutionFault):
            await run(surroundings, script)
        assert list(surroundings.workspace.iterdir()) == []


async def test_a_program_that_was_not_started_is_no_success(surroundings: Surroundings) -> None:
    (surroundings.workspace / "it").write_text("#!/missing/interpreter\n")
    (surroundings.workspace / "it").chmod(0o755)
    program = str(surroundings.workspace / "it")
    with pytest.raises(ResourceFault) as caught:
        await run(surroundings, program, "confined = true\nsuccess = [0, 1]", before="")
    assert caught.value.code == "not_started"


async def test_a_call_that_is_cancelled_at_its_start_runs_nothing(surroundings: Surroundings) -> None:
    began, go = threading.Event(), threading.Event()

    class Slow(WatchedFolder):
        def begin(self) -> Look:
            began.set()
            go.wait()
            return super().begin()

    assert surroundings.sandbox is not None
    surroundings.sandbox.files = Slow(str(surroundings.workspace))
    task = asyncio.create_task(run(surroundings, "echo x > file"))
    await asyncio.to_thread(began.wait)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(surroundings.workspace.iterdir()) == []


async def test_the_documentation_names_the_entries_that_tier_2_adds(surroundings: Surroundings) -> None:
    assert surroundings.sandbox is not None
    if surroundings.sandbox.tier != 2:
        lacking(f"tier 2 is not available here: {surroundings.sandbox.reason}")
    page = (ROOT / "documentation" / "tutorials" / "the-sandbox.rst").read_text(encoding="utf-8")
    sentence = page.partition("``ls -a`` in an empty workspace shows")[2].partition(".\n")[0]
    assert (await run(surroundings, "ls -A")).split() == re.findall("``(.+?)``", sentence)
    surroundings.sandbox.close()
    assert list(surroundings.workspace.iterdir()) == []


async def test_an_operators_own_program_has_their_rights_unless_they_say_otherwise(surroundings: Surroundings) -> None:
    assert await run(surroundings, "cat ../outside", "") == "canary"


async def test_the_projects_own_program_is_confined_and_no_other_passes_for_ours(surroundings: Surroundings) -> None:
    folder = surroundings.workspace / "part" / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    for name, script in {"sh": "echo own; cat ../../outside", "helper": "echo helped"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    more = 'confined = true\ndirectory = "part"'
    assert await run(surroundings, "echo system", more) == "system\n"
    assert await run(surroundings, "echo system", "") == "system\n"
    with pytest.raises(ExecutionFault) as caught:
        await run(surroundings, "echo system", f"{more}\nproject = true")
    assert "own" in caught.value.message
    assert "canary" not in caught.value.message
    (folder / "sh").unlink()
    # What the project brings is found by its programs, too.
    assert await run(surroundings, "helper", f"{more}\nproject = true") == "helped\n"
