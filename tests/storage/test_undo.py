"""The undo journal: what is written is there for whoever asks next, bounded, whole, and never in the workspace."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from ripieno.exceptions import InputError
from ripieno.storage import undo
from ripieno.storage.undo import Cause, State, Step, UndoEntry, UndoLog, digest
from tests.counts import count


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> UndoLog:
    return UndoLog(tmp_path / "state", tmp_path / "workspace")


def step(path: str, data: bytes | None = None) -> Step:
    before = None if data is None else State(kind="file", mode=0o644, digest=digest(data), size=len(data))
    return Step(path=path, before=before, after=None)


def add(journal: UndoLog, path: str, data: bytes | None = None) -> UndoEntry:
    with journal.locked():
        if data is not None:
            journal.keep(data)
        return journal.add([step(path, data)], Cause(tool="x.y", conversation="c", invocation="i"))


def test_entries_come_latest_first_and_survive(journal: UndoLog, tmp_path: pathlib.Path) -> None:
    assert list(journal.entries()) == []
    assert not (tmp_path / "state").exists()
    written = [add(journal, name, name.encode(errors="surrogateescape")) for name in ("one", "two\udcff", "three")]
    again = UndoLog(tmp_path / "state", tmp_path / "workspace")
    assert [*again.entries()] == [*reversed(written)]
    assert [entry.number for entry in written] == [1, 2, 3]
    assert again.load(digest(b"one")) == b"one"
    journal.set_undone(written[2])
    journal.set_undone(written[2])
    journal.drop(written[0])
    assert [entry.number for entry in again.entries()] == [2]
    assert [(entry.number, entry.undone) for entry in again.entries(undone=True)] == [(3, True), (2, False)]
    assert add(again, "four").number == 4
    assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / "state", *(tmp_path / "state").rglob("*")))


def test_another_workspace_has_another_journal(journal: UndoLog, tmp_path: pathlib.Path) -> None:
    add(journal, "one")
    assert list(UndoLog(tmp_path / "state", tmp_path / "elsewhere").entries()) == []
    (tmp_path / "workspace").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "workspace")
    assert len([*UndoLog(tmp_path / "state", tmp_path / "alias").entries()]) == 1


def test_a_state_beneath_the_workspace_is_not_apart(tmp_path: pathlib.Path) -> None:
    assert UndoLog(tmp_path / "state", tmp_path / "workspace").apart
    assert not UndoLog(tmp_path / "home" / "state", tmp_path / "home").apart
    (tmp_path / "home" / "state").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home" / "state")
    assert not UndoLog(tmp_path / "link", tmp_path / "home").apart


def test_what_is_damaged_is_said(journal: UndoLog) -> None:
    entry = add(journal, "one", b"content")
    (journal.folder / "contents" / digest(b"content").removeprefix("sha256:")).write_bytes(b"other")
    with pytest.raises(InputError, match="was altered"):
        journal.load(digest(b"content"))
    with pytest.raises(InputError, match="no longer has"):
        journal.load(digest(b"gone"))
    file = journal.folder / "entries" / f"{entry.number:012}.json"
    for text in ("{", "{}", '{"steps": 3}', '{"steps": [{}]}'):
        file.write_text(text)
        with pytest.raises(InputError, match="cannot be read"):
            list(journal.entries())
    (journal.folder / "lock").write_text("nonsense")
    assert add(journal, "two").number == 2


def test_it_stays_bounded(journal: UndoLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "TOTAL_BYTES", 10_000)
    monkeypatch.setattr(undo, "TOTAL_ENTRIES", 60)
    for number in range(50):
        add(journal, f"file{number}", os.urandom(900))
        assert sum(one.stat().st_size for one in (journal.folder / "contents").iterdir()) <= 10_000
    kept = [entry.steps[0].path for entry in journal.entries()]
    assert kept[0] == "file49"
    assert kept == [f"file{number}" for number in range(49, 49 - len(kept), -1)]
    for entry in journal.entries():
        assert entry.steps[0].before is not None
        journal.load(entry.steps[0].before.digest)
    for number in range(600):
        add(journal, f"small{number}")
    assert len([*journal.entries()]) <= 60 + 500
    add(journal, "huge", os.urandom(20_000))
    assert next(journal.entries()).steps[0].path == "huge"


def test_reading_is_remembered_for_each_conversation_and_bounded(journal: UndoLog) -> None:
    journal.readings("one")["path"] = "hash"
    assert journal.readings("one") == {"path": "hash"}
    assert journal.readings("two") == {}
    for number in range(5_000):
        journal.readings("two")[str(number)] = ""
    assert 4_096 <= len(journal.readings("two")) <= 4_097
    for number in range(300):
        journal.readings(f"other{number}")
    assert journal.readings("one") == {}


WRITER = """
import pathlib, sys
from ripieno.storage.undo import UndoLog, Step
journal = UndoLog(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
for number in range(int(sys.argv[3])):
    with journal.locked():
        journal.add([Step(path=f"{sys.argv[4]}{number}", before=None, after=None)])
"""


def test_programs_and_threads_share_it(journal: UndoLog, tmp_path: pathlib.Path) -> None:
    each = count(2_000, 100)
    argv = [sys.executable, "-c", WRITER, str(tmp_path / "state"), str(tmp_path / "workspace"), str(each)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    programs = [subprocess.Popen([*argv, name], env=environment) for name in "ab"]
    threads = [
        threading.Thread(target=lambda name=name: [add(journal, f"{name}{number}") for number in range(each)])
        for name in "cd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [program.wait() for program in programs] == [0, 0]
    entries = [*journal.entries()]
    assert [entry.number for entry in entries] == [*range(4 * each, 0, -1)]
    paths = {entry.steps[0].path for entry in entries}
    assert paths == {f"{name}{number}" for name in "abcd" for number in range(each)}
