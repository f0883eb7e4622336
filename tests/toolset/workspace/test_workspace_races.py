"""Somebody exchanges files, directories and links as fast as the system can, while we open and write."""

import contextlib
import itertools
import os
import pathlib
from collections.abc import Callable

import pytest

from ripieno.exceptions import ToolFault
from ripieno.toolset.workspace.workspace import Workspace
from tests.counts import count
from tests.toolset.furnished_workspace import CANARY, read, snapshot, swapping


@pytest.fixture
def raced(root: pathlib.Path, outside: pathlib.Path) -> pathlib.Path:
    """``swapped`` is now a directory, now a link to the outside; ``file`` now a file, now a link, a pipe, a folder."""
    (root / "swapped" / "a").mkdir(parents=True)
    (root / "swapped" / "a" / "b").write_text("inside")
    (root / "swapped" / "secret").write_text("inside")
    (root / "trap").symlink_to(outside)
    (root / "file").write_text("inside")
    (root / "file-trap").symlink_to(outside / "secret")
    os.mkfifo(root / "fifo-trap")
    (root / "folder-trap").mkdir()
    return root


def tally(act: Callable[[], object], times: int) -> tuple[int, int, int]:
    """How often it gave the canary, something else, and a refusal.

    Goes on until it met both sides of the swap: where writing stalls the swapper, that may be late.
    """
    escapes = successes = refusals = 0
    while escapes + successes + refusals < times or not (successes >= 10 and refusals >= 10):
        try:
            result = act()
        except ToolFault:
            refusals += 1
        else:
            escapes += result == CANARY
            successes += result != CANARY
        assert escapes + successes + refusals < 10_000_000
    return escapes, successes, refusals


def test_the_race_is_real(raced: pathlib.Path) -> None:
    """The instrument: who resolves first and opens then does escape."""

    def naive() -> bytes:
        try:
            resolved = os.path.realpath(raced / "swapped" / "secret")
            return pathlib.Path(resolved).read_bytes() if resolved.startswith(f"{raced}/") else b""
        except OSError:
            return b""

    with swapping(raced / "swapped", raced / "trap"):
        assert any(naive() == CANARY for _ in range(200_000))


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("swapped/secret", "swapped", "trap"),
        ("swapped/a/b", "swapped", "trap"),
        ("swapped/a/../secret", "swapped", "trap"),
        ("file", "file", "file-trap"),
        ("here/file", "file", "file-trap"),
    ],
)
def test_no_read_escapes_a_swap(raced: pathlib.Path, path: str, first: str, second: str) -> None:
    with Workspace(raced) as room, swapping(raced / first, raced / second):
        escapes, successes, refusals = tally(lambda: read(room, path), count(100_000))
    print(f"swap of {path}: {escapes} escapes, {successes} read, {refusals} refused")
    assert escapes == 0


@pytest.mark.parametrize("trap", ["fifo-trap", "folder-trap"])
def test_no_read_hangs_on_a_swap(raced: pathlib.Path, trap: str) -> None:
    with Workspace(raced) as room, swapping(raced / "file", raced / trap):
        escapes, _, _ = tally(lambda: read(room, "file"), count(40_000))
    assert escapes == 0


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("path", ["swapped/secret", "swapped/new"])
def test_no_write_escapes_a_swap(raced: pathlib.Path, outside: pathlib.Path, path: str, append: bool) -> None:
    before = snapshot(outside)
    with Workspace(raced) as room, swapping(raced / "swapped", raced / "trap"):
        _, successes, refusals = tally(lambda: room.write_file(path, b"written", append=append), count(20_000))
    print(f"swap of {path} while writing: {successes} written, {refusals} refused")
    assert snapshot(outside) == before


def test_no_append_follows_a_link_that_is_swapped_in(raced: pathlib.Path, outside: pathlib.Path) -> None:
    before = snapshot(outside)
    with Workspace(raced) as room, swapping(raced / "file", raced / "file-trap"):
        tally(lambda: room.write_file("file", b"written", append=True), count(20_000))
    assert snapshot(outside) == before


def test_a_link_that_is_swapped_in_is_replaced_and_not_followed(raced: pathlib.Path, outside: pathlib.Path) -> None:
    """An exchange may take the link's name, and then there is none left to refuse: so each try has its own."""
    before = snapshot(outside)
    with Workspace(raced) as room:
        for number in range(count(400)):
            (raced / f"link{number}").symlink_to(outside / "secret")
            (raced / f"plain{number}").write_text("inside")
            with swapping(raced / f"plain{number}", raced / f"link{number}"):
                for _ in range(20):
                    with contextlib.suppress(ToolFault):
                        room.write_file(f"plain{number}", b"written")
    assert snapshot(outside) == before


def test_directories_are_never_made_outside(raced: pathlib.Path, outside: pathlib.Path) -> None:
    before = snapshot(outside)
    numbers = itertools.count()
    with Workspace(raced) as room, swapping(raced / "swapped", raced / "trap"):
        tally(lambda: room.write_file(f"swapped/made{next(numbers)}/deeper/file", b"written"), count(20_000))
    assert snapshot(outside) == before
