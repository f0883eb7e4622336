"""Processes that are killed, that write at once, and disks that are full: nothing that was acknowledged is lost."""

import json
import pathlib
import subprocess
import sys

import pytest

from ripieno.storage.journal import Journal
from tests.counts import count

#: Hang bound of one script, in seconds.
HANG = 1500

BEGINNING = """
import json, os, pathlib, random, resource, signal, struct, sys, threading, time
from ripieno.exceptions import InputError
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record

def record(who, number, stage="started"):
    return Record(stage=stage, conversation=who, turn=1, tool="t", details={"n": number, "padding": "x" * 300})

def numbers(journal, who):
    return [line.record.details["n"] for line in journal.lines(who)]

path, times = pathlib.Path(sys.argv[1]), int(sys.argv[2])
"""

#: Forks writers and kills each at a random moment. Even and odd numbers are committed together.
STORM = """
chance, acknowledged_in_all, whole = random.Random(7), 0, 0
for turn in range(times):
    file = path / f"journal{turn // 20}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        journal = Journal(file)
        for number in range(0, 1_000_000, 2):
            journal.record([record(str(turn), number), record(str(turn), number + 1, "finished")])
            os.write(writing, struct.pack("i", number + 1))
    os.close(writing)
    if turn % 4:
        for _ in range(chance.randrange(30)):
            os.read(reading, 4)
    threading.Event().wait(chance.random() * 0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    rest = b""
    while data := os.read(reading, 65536):
        rest += data
    os.close(reading)
    with Journal(file) as journal:
        kept = numbers(journal, str(turn))
        assert kept == list(range(len(kept))), kept
        assert len(kept) % 2 == 0, "half of a commit"
        if rest:
            (last,) = struct.unpack("i", rest[-4:])
            assert len(kept) in (last + 1, last + 3), (last, len(kept))
            acknowledged_in_all += last + 1
        assert journal.verify(journal.anchor()) is None, journal.verify()
print(json.dumps({"kills": times, "acknowledged": acknowledged_in_all}))
"""

APPENDING = """
with Journal(path) as journal:
    for number in range(times):
        journal.record([record(sys.argv[3], number)])
"""

#: A limit on the size of files stands for a full disk: SQLite is told so in the middle of a write.
FULL = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(path)
journal.record([record("a", -1)])
chance, acknowledged, refused = random.Random(3), [-1], []
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for number in range(times):
    size = path.with_name(path.name + "-wal").stat().st_size
    if number % 10 == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + chance.randrange(9000), hard))
    if number % 10 == 7:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        journal.record([record("a", number)])
        acknowledged.append(number)
    except InputError as error:
        assert number % 10 < 7, error
        assert str(path) in str(error)
        refused.append(number)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert numbers(journal, "a") == acknowledged
journal.close()
with Journal(path) as journal:
    assert numbers(journal, "a") == acknowledged
    assert journal.verify() is None, journal.verify()
print(json.dumps({"acknowledged": len(acknowledged), "refused": len(refused)}))
"""

FORKED = """
journal = Journal(path)
journal.record([record("a", 0)])
child = os.fork()
journal.record([record("parent" if child else "child", 0)])
if child == 0:
    os._exit(0 if numbers(journal, "child") == [0] else 1)
assert os.waitpid(child, 0)[1] == 0
assert numbers(journal, "parent") == numbers(journal, "child") == [0]
assert journal.verify() is None
"""


def start(script: str, path: pathlib.Path, times: int, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", BEGINNING + script, str(path), str(times), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: "subprocess.Popen[str]") -> str:
    output, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    return output


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: pathlib.Path) -> None:
    kills = count(1000, 50)
    told = json.loads(end(start(STORM, tmp_path, kills)))
    assert told["kills"] == kills
    assert told["acknowledged"] > kills


def test_programs_that_append_at_once_keep_one_chain(tmp_path: pathlib.Path) -> None:
    path, times = tmp_path / "journal", count(2000, 50)
    names = ["a", "b", "c"]
    # None of them finds a file: each tries to make it.
    for process in [start(APPENDING, path, times, name) for name in names]:
        end(process)
    with Journal(path) as journal:
        assert journal.verify() is None
        assert journal.anchor().number == times * len(names)
        for name in names:
            records = [line.record for line in journal.lines(name)]
            assert [record and record.details["n"] for record in records] == list(range(times))
    assert [one.name for one in tmp_path.iterdir()] == ["journal"]


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    times = count(4000, 40)
    told = json.loads(end(start(FULL, tmp_path / "journal", times)))
    assert told["refused"] > times / 5
    assert told["acknowledged"] > times / 5


def test_a_journal_goes_on_in_a_process_that_was_forked(tmp_path: pathlib.Path) -> None:
    end(start(FORKED, tmp_path / "journal", 0))


@pytest.mark.parametrize("room", [0, 5000, 30_000])
def test_a_journal_that_cannot_be_made_leaves_nothing_behind(tmp_path: pathlib.Path, room: int) -> None:
    script = f"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, hard))
try:
    journal = Journal(path)
except InputError as error:
    assert list(path.parent.iterdir()) == [], list(path.parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
with Journal(path) as journal:
    journal.record([record("a", 0)])
    assert numbers(journal, "a") == [0]
"""
    end(start(script, tmp_path / "journal", 0))
