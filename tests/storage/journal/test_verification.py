"""Every change of a journal behind its back is found, at the first line that it touches."""

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from ripieno.exceptions import InputError
from ripieno.storage.journal import Anchor, Journal, Line
from ripieno.storage.journal.verification import COLUMNS
from tests.counts import count
from tests.storage.journal.test_journal import call

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


def flip(connection: sqlite3.Connection, chance: random.Random) -> int:
    """Changes one value of one line; gives the first line that is then wrong."""
    number, name = chance.randint(1, LINES), chance.choice(NAMES)
    (value,) = connection.execute(f"SELECT {name} FROM lines WHERE number = ?", (number,)).fetchone()
    if name == "number":
        connection.execute("UPDATE lines SET number = ? WHERE number = ?", (LINES + chance.randint(1, 9), number))
        return number
    new: object
    if value is None:
        new = chance.choice(["", "00", "{}"])
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
    # Without the line that tells of the deletion, bodies are missing before it.
    return 1 if number == 9 and (name == "conversation" or stage != "deleted") else number


def drop(connection: sqlite3.Connection, chance: random.Random) -> int:
    number = chance.randint(1, LINES)
    connection.execute("DELETE FROM lines WHERE number = ?", (number,))
    if chance.random() < 0.5:  # The others close up.
        for later in range(number + 1, LINES + 1):
            connection.execute("UPDATE lines SET number = ? WHERE number = ?", (later - 1, later))
    return 1 if number == 9 else number


def reorder(connection: sqlite3.Connection, chance: random.Random) -> int:
    first, second = sorted(chance.sample(range(1, LINES + 1), 2))
    for old, new in ((first, 99), (second, first), (99, second)):
        connection.execute("UPDATE lines SET number = ? WHERE number = ?", (new, old))
    return first


def truncate(connection: sqlite3.Connection, chance: random.Random) -> int:
    number = chance.randint(1, LINES)
    connection.execute("DELETE FROM lines WHERE number >= ?", (number,))
    return 1 if 1 < number <= 9 else number


def insert(connection: sqlite3.Connection, chance: random.Random) -> int:
    number = chance.randint(1, LINES)
    row = connection.execute(f"SELECT {COLUMNS} FROM lines WHERE number = ?", (number,)).fetchone()
    place = chance.choice([0, -1, LINES + 1])
    connection.execute(f"INSERT INTO lines VALUES ({', '.join('?' * 12)})", (place, *row[1:]))
    return max(place, 1)


@pytest.mark.parametrize("attack", [flip, drop, reorder, truncate, insert])
def test_a_change_is_found_at_its_first_line(attack: object, original: tuple[Path, Anchor], tmp_path: Path) -> None:
    assert callable(attack)
    path, anchor = original
    for seed in range(count(2000, 100)):
        with tampered(path, tmp_path) as connection:
            expected = attack(connection, random.Random(seed))
        with Journal(tmp_path / "copy") as journal:
            found = journal.verify(anchor)
        assert found is not None, seed
        assert found.number == expected, (seed, found)


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
