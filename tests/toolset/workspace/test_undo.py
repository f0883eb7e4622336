"""Undo: what tools changed becomes what it was, or stays where something else has changed since."""

import asyncio
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ripieno.exceptions import InputError, ToolFault
from ripieno.storage.undo import UndoLog
from ripieno.toolset.files.read import read_file
from ripieno.toolset.files.write import edit_file
from ripieno.toolset.workspace.undo import Undone, choose, mark, undo
from tests.counts import count
from tests.toolset import furnished_workspace
from tests.toolset.file_tools import Tools, file_tools


@pytest.fixture
async def tools(workspace: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[Tools]:
    furnish(workspace)
    async with file_tools(workspace, tmp_path) as found:
        yield found


def furnish(workspace: pathlib.Path) -> None:
    for name in ("a/one", "a/b/two", "a/b/c/three", "four"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"{name}\n")
    (workspace / "four").chmod(0o640)
    (workspace / "a/b").chmod(0o750)
    (workspace / "a/link").symlink_to("../four")
    (workspace / "hollow/inner").mkdir(parents=True)


def look(workspace: pathlib.Path) -> dict[str, object]:
    """All that is there: contents, permissions, links."""
    return {name: (mode, data) for name, (mode, _, data) in furnished_workspace.look(workspace).items()}


def take_back(tools: Tools, number: int = 1, to: str | None = None) -> list[Undone]:
    return [*undo(tools.journal, tools.workspace, choose(tools.journal, number, to=to))]


TWO_FILES = "--- a/four\n+++ b/four\n@@ -1 +1 @@\n-four\n+4\n--- /dev/null\n+++ b/x/five\n@@ -0,0 +1 @@\n+5\n"
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "four", "content": "other"}),
    ("write_file", {"path": "x/y/new", "content": "other"}),
    ("append_file", {"path": "four", "content": "more"}),
    ("create_file", {"path": "new", "content": ""}),
    ("edit_file", {"path": "four", "old_content": "four", "new_content": "4"}),
    ("patch_file", {"patch": TWO_FILES}),
    ("patch_file", {"patch": "diff --git a/four b/x/4\nrename from four\nrename to x/4\n"}),
    ("delete_file", {"path": "four"}),
    ("delete_file", {"path": "a/link"}),
    ("rename_file", {"path": "four", "new_name": "4"}),
    ("move_file", {"source": "four", "destination": "x/4", "create_directories": True}),
    ("move_file", {"source": "four", "destination": "a/one", "overwrite": True}),
    ("copy_file", {"source": "four", "destination": "4"}),
    ("copy_file", {"source": "four", "destination": "a/one", "overwrite": True}),
    ("chmod", {"path": "four", "mode": "700"}),
    ("chmod", {"path": "a", "mode": "700"}),
    ("mkdir", {"path": "x"}),
    ("create_directory", {"path": "x/y/z"}),
    ("rmdir", {"path": "hollow/inner"}),
    ("delete_directory", {"path": "a", "recursive": True}),
    ("delete_directory", {"path": "hollow", "recursive": True}),
    ("move", {"source": "a", "destination": "hollow/a"}),
    ("copy", {"source": "a", "destination": "z", "recursive": True}),
]  # fmt: skip


async def test_a_change_is_taken_back(tools: Tools) -> None:
    before = look(tools.workspace)
    for number, (name, arguments) in enumerate(CHANGES):
        tools.conversation = f"conversation {number}"
        await tools.call(name, **arguments)
        assert look(tools.workspace) != before
        (one,) = take_back(tools)
        assert one.refused == ()
        assert one.restored
        assert one.entry.cause.tool.endswith(f".{name}")
        assert look(tools.workspace) == before, (name, arguments)
        assert take_back(tools) == []
        # An undo that was cut off before it was noted is repeated, and changes nothing.
        assert [*undo(tools.journal, tools.workspace, [one.entry])] == [Undone(entry=one.entry)]
        assert look(tools.workspace) == before


SPOILS: dict[str, Callable[[pathlib.Path], object]] = {
    "write": lambda path: path.write_text("somebody else's"),
    "delete": lambda path: path.unlink(),
    "make": lambda path: path.mkdir(),
    "link": lambda path: (path.unlink(), path.symlink_to("hollow")),
}


@pytest.mark.parametrize(
    ("name", "path", "how", "reason"),
    [
        ("write_file", "four", "write", "'four' has changed since."),
        ("write_file", "four", "delete", "'four' is gone."),
        ("write_file", "four", "link", "'four' has changed since."),
        ("delete_file", "four", "write", "'four' has changed since."),
        ("delete_file", "four", "make", "'four' has changed since."),
        ("create_directory", "x/y/strange", "write", "'x/y' has something in it that was not there: 'strange'."),
        ("copy", "z/b/strange", "write", "'z/b' has something in it that was not there: 'strange'."),
        ("copy", "z/b/two", "write", "'z/b/two' has changed since."),
        ("move_file", "four", "write", "'four', from where 'x/4' was moved, exists again."),
        ("move_file", "x/4", "write", "'x/4' has changed since."),
    ],
)
async def test_what_has_changed_since_stays(tools: Tools, name: str, path: str, how: str, reason: str) -> None:
    arguments = next(arguments for one, arguments in CHANGES if one == name)
    if name == "create_directory":
        arguments = {"path": "x/y"}
    await tools.call(name, **arguments)
    SPOILS[how](tools.workspace / path)
    before = look(tools.workspace)
    (one,) = take_back(tools)
    assert reason in one.refused
    assert one.restored == ()
    assert look(tools.workspace) == before
    assert choose(tools.journal, 1) == [one.entry]


async def test_many_are_taken_back_up_to_a_mark_and_no_further_than_a_refusal(tools: Tools) -> None:
    before = look(tools.workspace)
    for text in ("1", "2", "3"):
        await tools.call("write_file", path="new", content=text)
    assert mark(tools.context("write_file"), "here") == 4
    between = look(tools.workspace)
    await tools.call("write_file", path="new", content="4")
    await tools.call("delete_file", path="four")
    assert len(take_back(tools, to="here")) == 2
    assert look(tools.workspace) == between
    assert take_back(tools, to="here") == []
    with pytest.raises(InputError, match=r"There is no mark 'there'\. Marks: here\."):
        take_back(tools, to="there")
    assert len(take_back(tools, 9)) == 3
    assert look(tools.workspace) == before
    await tools.call("write_file", path="new", content="1")
    await tools.call("write_file", path="other", content="1")
    (tools.workspace / "other").write_text("2")
    (one,) = take_back(tools, 2)
    assert one.refused
    assert (tools.workspace / "new").exists()


async def test_what_was_not_kept_is_passed_over(tools: Tools) -> None:
    """It stays, with earlier changes of the same paths, of folders above and of what lies beneath; others go back."""
    large = b"x" * (10 * 2**20 + 1)
    await tools.call("write_file", path="four", content="4")
    await tools.call("create_directory", path="big")
    await tools.call("create_file", path="big/small", content="1")
    await tools.call("create_file", path="big/large", content="1")
    (tools.workspace / "big/large").write_bytes(large)
    await tools.call("delete_file", path="big/large")
    await tools.call("write_file", path="a/one", content="1")
    assert [entry.kept for entry in tools.journal.entries()] == [True, False, True, True, True, True]
    entries = choose(tools.journal, 6)
    latest, *rest = undo(tools.journal, tools.workspace, entries)
    assert (latest.restored, [one.refused for one in rest]) == (
        ("a/one",),
        [("What 'big/large' was before is too large, and was not kept.",)],
    )
    stays = " stays, since a later change there was passed over."
    passed = [*undo(tools.journal, tools.workspace, entries[1:], skip=True)]
    assert [(one.restored, one.refused) for one in passed] == [
        ((), ("What 'big/large' was before is too large, and was not kept.",)),
        ((), (f"'big/large'{stays}",)),
        (("big/small",), ()),
        ((), (f"'big'{stays}",)),
        (("four",), ()),
    ]
    assert (tools.workspace / "four").read_text() == "four\n"
    assert [*(tools.workspace / "big").iterdir()] == []
    assert [entry.number for entry in tools.journal.entries()] == [5, 4, 2]


async def test_what_was_moved_stays_where_a_change_beneath_is_passed_over(tools: Tools) -> None:
    await tools.call("move", source="a", destination="moved")
    await tools.call("write_file", path="moved/one", content="1")
    (tools.workspace / "moved/one").write_text("mine")
    first, second = undo(tools.journal, tools.workspace, choose(tools.journal, 2), skip=True)
    assert first.refused == ("'moved/one' has changed since.",)
    assert second.refused[0] == "'moved' stays, since a later change there was passed over."
    assert (tools.workspace / "moved/one").read_text() == "mine"


async def test_nothing_is_kept_in_the_workspace(workspace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A program may give tools a log whose folder lies in the workspace: they work, and nothing is kept."""
    async with file_tools(workspace, tmp_path) as tools:
        inside = UndoLog(workspace / "state", workspace)
        tools.surroundings = dataclasses.replace(tools.assembly.surroundings, journal=inside)
        await tools.call("write_file", path="file", content="1")
        assert mark(tools.context("write_file"), "here") is None
    assert not (workspace / "state").exists()


async def test_any_sequence_is_taken_back(workspace: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A law: after any changes, undoing all of them gives what was there, and undoing in two parts does, too."""
    furnish(workspace)
    before = look(workspace)
    chance = random.Random(41)
    names = ["four", "a/one", "a/b/two", "x", "x/new", "hollow", "a", "a/b", "hollow/inner", "new"]
    async with file_tools(workspace, tmp_path) as tools:
        for _ in range(count(400, 80)):
            made = 0
            for _ in range(12):
                name, given = chance.choice(CHANGES)
                arguments = dict(given)
                for key in ("path", "source", "destination"):
                    if key in arguments and chance.random() < 0.7:
                        arguments[key] = chance.choice(names)
                entries = len([*tools.journal.entries()])
                try:
                    await tools.call(name, **arguments)
                except ToolFault:
                    assert len([*tools.journal.entries()]) == entries
                made += len([*tools.journal.entries()]) - entries
            first = chance.randint(1, made) if made else 0
            for number in (first, made - first):
                if number:
                    assert not any(one.refused for one in take_back(tools, number))
            assert look(workspace) == before


async def test_edits_of_sixteen_tasks_lose_nothing(tools: Tools) -> None:
    """Each acknowledged edit is there; each conflict that was made is reported; what is read is whole."""
    tasks, each = 16, count(10_000, 100) // 16
    file = tools.workspace / "shared"
    file.write_text("".join(f"task {number}: 0.\n" for number in range(tasks)) + "x" * 20_000)
    acknowledged, conflicts, torn = [0] * tasks, [0] * tasks, 0
    around = tools.assembly.surroundings

    def work(number: int) -> None:
        nonlocal torn
        context = dataclasses.replace(tools.context("edit_file"), conversation=f"task {number}", surroundings=around)
        for _ in range(each):
            text = read_file(context, {"path": "shared"})
            torn += not text.endswith("." + "\n" + "x" * 20_000)
            old = f"task {number}: {acknowledged[number]}.\n"
            new = f"task {number}: {acknowledged[number] + 1}.\n"
            try:
                edit_file(context, {"path": "shared", "old_content": old, "new_content": new})
            except ToolFault as fault:
                conflicts[number] += fault.code == "conflict"
            else:
                acknowledged[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(tasks)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    print(f"{sum(acknowledged)} edits, {sum(conflicts)} conflicts, {torn} torn")
    assert torn == 0
    assert file.read_text().splitlines()[:tasks] == [f"task {n}: {acknowledged[n]}." for n in range(tasks)]
    assert sum(acknowledged) + sum(conflicts) == tasks * each
    assert sum(acknowledged) > 0
    assert len([*tools.journal.entries()]) == sum(acknowledged)


async def test_somebody_elses_change_is_never_lost(tools: Tools) -> None:
    """Another program replaces the file all the while, and knows nothing of us: its versions are never overwritten."""
    file = tools.workspace / "shared"
    file.write_text("foreign 0\n")
    stop = threading.Event()
    written = 0

    def replace() -> None:
        nonlocal written
        while not stop.is_set():
            written += 1
            temporary = tools.workspace / "temporary"
            temporary.write_text(f"foreign {written}\n")
            temporary.replace(file)

    context = tools.context("edit_file")
    thread = threading.Thread(target=replace)
    thread.start()
    done = conflicts = 0
    codes: set[str | None] = set()
    try:
        while done + conflicts < count(4_000, 100) or not conflicts:
            text = file.read_text()
            try:
                await asyncio.to_thread(
                    edit_file, context, {"path": "shared", "old_content": text, "new_content": f"edited of {text}"}
                )
            except ToolFault as fault:
                conflicts += 1
                codes.add(fault.code)
            else:
                done += 1
    finally:
        stop.set()
        thread.join()
    assert file.read_text().endswith(f"foreign {written}\n")
    assert codes <= {"conflict", "no_match"}
    left = sorted(name for name in os.listdir(tools.workspace) if name.startswith(".ripieno"))
    assert left == []


#: Forks a child that changes files and says so, kills it at some moment, and looks at what is there; many times.
STORM = """
import json, os, pathlib, random, select, signal, sys
from ripieno.exceptions import ToolFault
from ripieno.toolset.workspace.workspace import Workspace
from ripieno.toolset.workspace.undo import choose, undo
from ripieno.storage.undo import Cause, UndoLog

state, workspace, kills = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
SIZE = 50_000
chance = random.Random(7)
totals = dict(kills=0, acknowledged=0, torn=0, lost=0, undone=0, refused=0)

def work(channel):
    journal = UndoLog(state, workspace)
    number = 0
    with Workspace(workspace, journal=journal) as files:
        while True:
            number += 1
            mark = b"%08d" % number
            files.write_file("whole", mark * (SIZE // 8))
            os.write(channel, b"w")
            files.write_file("edited", lambda before: mark + (before or b"")[8:], existing=True)
            os.write(channel, b"e")
            files.move("here", "there", overwrite=True)
            os.write(channel, b"m")
            files.copy("there", "here")
            os.write(channel, b"c")
            files.delete("gone", kind="file")
            os.write(channel, b"d")
            files.write_file("gone", mark, new=True)
            os.write(channel, b"n")

for turn in range(kills):
    for name in ("whole", "edited", "here", "there", "gone"):
        (workspace / name).write_bytes(b"%08d" % 0 * (SIZE // 8))
    before = {name: (workspace / name).read_bytes() for name in os.listdir(workspace) if not name.startswith(".")}
    journal = UndoLog(state, workspace)
    for entry in journal.entries():
        journal.drop(entry)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(writer)
        finally:
            os._exit(1)
    os.close(writer)
    seen = b""
    wanted = chance.randint(1, 20)
    while len(seen) < wanted:
        seen += os.read(reader, 1)
    if chance.random() < 0.8:
        select.select([reader], [], [], chance.random() * 0.004)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reader, 4096):
        seen += more
    os.close(reader)
    totals["kills"] += 1
    totals["acknowledged"] += len(seen)
    whole, edited = (workspace / "whole").read_bytes(), (workspace / "edited").read_bytes()
    rounds = {letter: seen.count(letter.encode()) for letter in "wemcdn"}
    totals["torn"] += len(whole) != SIZE or whole != whole[:8] * (SIZE // 8)
    totals["torn"] += len(edited) != SIZE or edited[8:] != before["edited"][8:]
    totals["lost"] += int(whole[:8]) not in (rounds["w"], rounds["w"] + 1)
    totals["lost"] += int(edited[:8]) not in (rounds["e"], rounds["e"] + 1)
    # Whatever was said to be done, and what was done last without being said, can be taken back.
    entries = [entry for entry in journal.entries()]
    totals["lost"] += len(entries) not in (len(seen), len(seen) + 1)
    for one in undo(journal, workspace, choose(journal, 10_000)):
        totals["refused"] += bool(one.refused)
        if one.refused:
            print(one, file=sys.stderr)
        totals["undone"] += 1
    after = {name: (workspace / name).read_bytes() for name in os.listdir(workspace) if not name.startswith(".")}
    if after != before:
        totals["lost"] += 1
        print({name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}, file=sys.stderr)
print(json.dumps(totals))
"""


def test_no_kill_tears_a_file_or_loses_an_undo(tmp_path: pathlib.Path) -> None:
    (tmp_path / "workspace").mkdir()
    kills = count(2_000, 100)
    argv = [sys.executable, "-c", STORM, str(tmp_path / "state"), str(tmp_path / "workspace"), str(kills)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)
    print(totals)
    assert totals["kills"] == kills
    assert totals["acknowledged"] > kills
    assert (totals["torn"], totals["lost"], totals["refused"]) == (0, 0, 0), done.stderr
