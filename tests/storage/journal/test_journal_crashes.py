"""Killed processes, full disks and changes behind its back: nothing is lost, and every change is found."""

import contextlib
import json
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ripieno.exceptions import InputError
from ripieno.storage.journal import Anchor, Journal, Line
from ripieno.storage.journal.lines import COLUMNS
from tests.counts import count
from tests.storage.journal.test_journal import call

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


NAMES = COLUMNS.split(", ")
LINES = 15


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Anchor]:
    """A journal of fifteen lines, of which a deletion took the bodies of two."""
    path = tmp_path_factory.mktemp("journal") / "original"
    with Journal(path) as journal:
        journal.record([call("finished", f"x{number}", conversation="gone", text="secret") for number in range(2)])
        journal.record([call("started", f"y{number}", text="é" * number) for number in range(6)])
        journal.delete("gone")
        journal.record([call("finished", f"z{number}", text="there") for number in range(6)])
        assert journal.verify(journal.anchor()) is None
        return path, journal.anchor()


@contextlib.contextmanager
def tampered(original: Path, folder: Path) -> "contextlib._GeneratorContextManager[sqlite3.Connection]":  # type: ignore[misc]
    shutil.copyfile(original, folder / "copy")
    with contextlib.closing(sqlite3.connect(folder / "copy", isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")


def flip(connection: sqlite3.Connection, chance: random.Random) -> int | None:
    """Changes one value of one line; gives the first line that is then wrong, if it is certain."""
    number, name = chance.randint(1, LINES), chance.choice(NAMES)
    (value,) = connection.execute(f"SELECT {name} FROM lines WHERE number = ?", (number,)).fetchone()
    if name == "number":
        connection.execute("UPDATE lines SET number = ? WHERE number = ?", (LINES + chance.randint(1, 9), number))
        return None
    new: object
    if value is None:
        new = chance.choice(["", "00", "{}"])
    elif name == "place":
        new = LINES + chance.randint(1, 9)
    elif isinstance(value, int):
        new = value ^ (1 << chance.randrange(20))
    elif name in ("body", "salt", "invocation") and chance.random() < 0.1:
        new = None
    else:
        data = bytearray(value.encode() or b"?")
        place = chance.randrange(len(data))
        data[place] = chance.choice([byte for byte in range(32, 127) if byte != data[place]])
        new = data.decode("utf-8", "replace") if value else "?"
    connection.execute(f"UPDATE lines SET {name} = ? WHERE number = ?", (new, number))
    (stage,) = connection.execute("SELECT stage FROM lines WHERE number = 9").fetchone()
    if name in ("conversation", "owner", "place"):
        return None
    # Without the line that records the deletion, bodies are missing before it.
    return 1 if number == 9 and stage != "deleted" else number


def drop(connection: sqlite3.Connection, chance: random.Random) -> None:
    number = chance.randint(1, LINES)
    connection.execute("DELETE FROM lines WHERE number = ?", (number,))
    if chance.random() < 0.5:  # The others close up.
        for later in range(number + 1, LINES + 1):
            connection.execute("UPDATE lines SET number = ? WHERE number = ?", (later - 1, later))


def reorder(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Swaps two lines of one conversation."""
    first, second = sorted(chance.sample([1, 2, 9] if chance.random() < 0.2 else [*range(3, 9), *range(10, 16)], 2))
    for old, new in ((first, 99), (second, first), (99, second)):
        connection.execute("UPDATE lines SET number = ? WHERE number = ?", (new, old))


def truncate(connection: sqlite3.Connection, chance: random.Random) -> None:
    connection.execute("DELETE FROM lines WHERE number >= ?", (chance.randint(1, LINES),))


def insert(connection: sqlite3.Connection, chance: random.Random) -> None:
    number = chance.randint(1, LINES)
    values = connection.execute(f"SELECT {COLUMNS} FROM lines WHERE number = ?", (number,)).fetchone()
    row = dict(zip(NAMES, values, strict=True))
    row["number"] = chance.choice([0, -1, LINES + 1])
    row["place"] = chance.choice([0, -1, LINES + 1, row["place"] + LINES])
    if chance.random() < 0.3:
        row.update(conversation="new", place=1)
    connection.execute(f"INSERT INTO lines ({COLUMNS}) VALUES ({', '.join('?' * len(NAMES))})", [*row.values()])


def forget(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Drops a whole conversation."""
    connection.execute("DELETE FROM lines WHERE conversation = ?", (chance.choice(["gone", "c"]),))
    if chance.random() < 0.5:
        for new, (old,) in enumerate(connection.execute("SELECT number FROM lines ORDER BY number").fetchall(), 1):
            connection.execute("UPDATE lines SET number = ? WHERE number = ?", (new, old))


@pytest.mark.parametrize("attack", [flip, drop, reorder, truncate, insert, forget])
def test_a_change_is_found(attack: object, original: tuple[Path, Anchor], tmp_path: Path) -> None:
    """It is found at its first line, where that line is there and is still one of its conversation."""
    assert callable(attack)
    path, anchor = original
    for seed in range(count(2000, 100)):
        with tampered(path, tmp_path) as connection:
            expected = attack(connection, random.Random(seed))
        with Journal(tmp_path / "copy") as journal:
            found = journal.verify(anchor)
        assert found is not None, seed
        assert expected in (None, found.number), (seed, found)


def test_a_tail_that_was_cut_is_found_by_an_anchor_only(original: tuple[Path, Anchor], tmp_path: Path) -> None:
    path, anchor = original
    with tampered(path, tmp_path) as connection:
        connection.execute("DELETE FROM lines WHERE number > 12")
    with Journal(tmp_path / "copy") as journal:
        assert journal.verify() is None
        found = journal.verify(anchor)
        assert found is not None
        assert (found.number, "missing" in found.reason) == (13, True)
        # Nor does it help to write others in their place.
        journal.record([call("finished", f"n{number}") for number in range(9)])
        assert journal.verify() is None
        found = journal.verify(anchor)
        assert found is not None
        assert found.number == anchor.number


def everything(path: Path) -> list[Line]:
    with Journal(path) as journal:
        return [*journal.lines(), *journal.lines("gone"), *journal.lines("c")]


def test_any_flipped_byte_of_the_file_is_found_or_means_nothing(original: tuple[Path, Anchor], tmp_path: Path) -> None:
    path, anchor = original
    data, expected = path.read_bytes(), everything(path)
    chance, harmless, total = random.Random(6), 0, count(10_000, 100)
    for number in range(total):
        place = chance.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << chance.randrange(8)
        copy = tmp_path / f"copy{number}"
        copy.write_bytes(changed)
        try:
            with Journal(copy) as journal:
                found = journal.verify(anchor)
        except InputError:
            found = None
        else:
            if found is None:
                harmless += 1
                assert everything(copy) == expected, place
        for one in tmp_path.iterdir():
            one.unlink()
    assert harmless < total
