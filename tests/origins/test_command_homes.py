"""Homes of conversations: what the programs of one can do with the home and the temporary folder of another."""

import asyncio
import dataclasses
import json
import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.ensembles import Surroundings
from ripieno.origins.command.programs import launch, run
from ripieno.sandbox import homes
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of
from tests.counts import count
from tests.skips import lacking
from tests.support.hosted_runs import asks, results_in, staged
from tests.support.sandbox_tiers import PYTHON, SHELTERS, shelter
from tests.support.toml_ensembles import make_context, make_ensemble, surround

#: Leaves a canary in every kind of place, and says where. With a line of input, it waits for the end of that.
VICTIM = """
import json, os, sys
canary = sys.argv[1]
for place in (os.environ["HOME"], os.environ["TMPDIR"]):
    os.makedirs(f"{place}/.deep/er", exist_ok=True)
    for name in ("secret", ".deep/er/secret"):
        with open(f"{place}/{name}", "w") as file:
            file.write(canary)
        os.chmod(f"{place}/{name}", 0o777)
    with open(f"{place}/program", "w") as file:
        file.write("#!/bin/sh\\necho " + canary)
    os.chmod(f"{place}/program", 0o777)
    os.chmod(place, 0o777)
print(json.dumps([os.environ["HOME"], os.environ["TMPDIR"]]))
"""

#: Tries to get at those places, whose paths it knows. Prints the attempts that gave it something, or changed something.
INTRUDER = """
import glob, json, os, shutil, subprocess, sys
canary, *places = sys.argv[1:]
own = os.environ["HOME"]
got = []
def read(path):
    with open(path) as file:
        return file.read()
def write(path):
    with open(path, "w") as file:
        file.write("planted")
    return canary
def link(path, make):
    name = f"{own}/{len(got)}-{os.urandom(4).hex()}"
    make(path, name)
    return read(name)
def beneath(path):
    descriptor = os.open(path, os.O_PATH)
    return read(f"/proc/self/fd/{descriptor}/secret")
def entered(path):
    os.chdir(path)
    try:
        return read("secret")
    finally:
        os.chdir("/")
def listed(path):
    return canary if "secret" in os.listdir(path) else ""
def walked(path):
    return canary if any("secret" in names for _, _, names in os.walk(path)) else ""
def found(pattern):
    files = glob.glob(pattern, recursive=True, include_hidden=True)
    return "".join(read(one) for one in files if os.path.isfile(one))
WAYS = {
    "read": lambda one: read(f"{one}/secret"),
    "read deeper": lambda one: read(f"{one}/.deep/er/secret"),
    "read by the root of a process": lambda one: read(f"/proc/self/root{one}/secret"),
    "read behind itself": lambda one: read(f"{own}/../../..{one}/secret"),
    "read by descriptor": beneath,
    "enter": entered,
    "list": listed,
    "list deeper": lambda one: walked(os.path.dirname(one)),
    "list what is above": lambda one: walked(os.path.dirname(os.path.dirname(one))),
    "symbolic link": lambda one: link(f"{one}/secret", os.symlink),
    "hard link": lambda one: link(f"{one}/secret", os.link),
    "copy": lambda one: link(f"{one}/secret", shutil.copyfile),
    "move": lambda one: link(f"{one}/.deep/er/secret", os.rename),
    "move to it": lambda one: (write(f"{own}/mine"), os.rename(f"{own}/mine", f"{one}/mine"))[0],
    "write": lambda one: write(f"{one}/secret"),
    "create": lambda one: write(f"{one}/planted"),
    "create settings": lambda one: write(f"{one}/.gitconfig"),
    "remove": lambda one: (os.unlink(f"{one}/.deep/er/secret"), canary)[1],
    "execute": lambda one: subprocess.run([f"{one}/program"], capture_output=True, text=True).stdout,
    "load": lambda one: subprocess.run(["sh", "-c", f". {one}/program"], capture_output=True, text=True).stdout,
    "its own home": lambda one: read(f"{own}/secret"),
    "its own temporary folder": lambda one: read(f"{os.environ['TMPDIR']}/secret"),
    "neighbours": lambda one: found(f"{own}/../../**/secret"),
    "folders of processes": lambda one: found("/proc/[0-9]*/cwd/secret"),
    "roots of processes": lambda one: found(f"/proc/[0-9]*/root{one}/secret"),
    "descriptors of processes": lambda one: found("/proc/[0-9]*/fd/[0-9]*"),
}
for place in places:
    for name, way in WAYS.items():
        try:
            if canary in way(place):
                got.append(f"{name}: {os.path.basename(place)}")
        except (OSError, UnicodeDecodeError, shutil.Error):
            pass
print(json.dumps([2 * len(WAYS), got]))
"""

ENSEMBLE = """
    [ensemble]
    name = "it"
    [[invokers]]
    name = "run"
    description = "Runs a program"
    effect = "write"
    [invokers.arguments]
    type = "object"
    [invokers.invocable]
    origin = "command"
    argv = ["true"]
    confined = true
"""


@pytest.fixture(params=SHELTERS)
def surroundings(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Surroundings]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    sandbox = shelter(request.param, workspace)
    yield dataclasses.replace(surround(workspace), sandbox=sandbox)
    sandbox.close()


async def perform(surroundings: Surroundings, conversation: str, code: str, *words: str) -> Any:
    """What a program of a conversation prints, as JSON."""
    async with make_ensemble(ENSEMBLE, surroundings) as ensemble:
        context = make_context(ensemble, "run")
    context.conversation = conversation
    async with asyncio.timeout(60):
        completed = await run(context, [PYTHON, "-I", "-S", "-c", code, *words])
    assert completed.exit_code == 0, completed.stderr.text
    return json.loads(completed.stdout.text)


async def test_no_conversation_reaches_the_home_of_another(surroundings: Surroundings) -> None:
    chance = random.Random(20)
    broken: list[str] = []
    tried = 0
    for number in range(count(40)):
        canary = f"CANARY-{chance.getrandbits(128):032x}"
        victim, intruder = f"victim {number}", f"intruder {number}"
        places = await perform(surroundings, victim, VICTIM, canary)
        attempts, got = await perform(surroundings, intruder, INTRUDER, canary, *places)
        tried += attempts
        broken += got
        # What a conversation has put there is still there in its next call.
        kept = "import json, os; print(json.dumps(open(os.environ['HOME'] + '/secret').read()))"
        if await perform(surroundings, victim, kept) != canary:
            broken.append("changed")
    assert tried == 52 * count(40)
    assert broken == [], f"{len(broken)} of {tried}"


def exist(places: list[list[str]]) -> list[bool]:
    return [all(map(os.path.isdir, folders)) for folders in places]


async def test_a_home_stays_while_a_program_of_its_conversation_runs(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "MOST_HOMES", 2)
    show = "import json, os; print(json.dumps([os.environ['HOME'], os.environ['TMPDIR']]))"
    async with make_ensemble(ENSEMBLE, surroundings) as ensemble:
        context = make_context(ensemble, "run")
    context.conversation = "long"
    before = await perform(surroundings, "long", show)
    async with await launch(context, [PYTHON, "-I", "-S", "-c", "input()"], pipe_stdin=True) as process:
        for number in range(6):
            await perform(surroundings, f"short {number}", show)
        assert await perform(surroundings, "long", show) == before
        assert await asyncio.to_thread(exist, [before]) == [True]
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 1
    made = [before, *[await perform(surroundings, f"later {number}", show) for number in range(4)]]
    assert await asyncio.to_thread(exist, made) == [False, False, True, True, True]
    # It has another one from now on.
    assert await perform(surroundings, "long", show) != before


async def test_requests_at_the_gateway_share_no_home(tmp_path: pathlib.Path) -> None:
    script = "echo $HOME; ls -A $HOME $TMPDIR; echo planted > $HOME/.bashrc; echo planted > $TMPDIR/file"
    configuration = {"confirmation": {"approve": ["execution.bash"]}, "ensembles": {"include": ["execution"]}}
    seen: set[str] = set()
    async with staged(tmp_path, configuration=configuration, ensembles=("execution",)) as played:
        sandbox = played.assembly.surroundings.sandbox
        if sandbox is None or sandbox.missing is not None:
            lacking("no sandbox is available here")
        for caller in ("ada", "bo", "ada"):
            turns = [turn("I run it.", calls=[call("bash", command=script)]), turn("It is done.")]
            events = await played.answer(model_of(turns), asks(), caller=caller)
            ((_, text),) = results_in(events)
            assert "/home" in text
            assert ".bashrc" not in text
            assert "file" not in text
            seen.add(text)
    # Three different folders.
    assert len(seen) == 3
