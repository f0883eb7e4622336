"""Every operation of a workspace, while another thread exchanges its files: nothing outside is read or changed."""

import contextlib
import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.exceptions import ToolFault
from ripieno.toolset.workspace.workspace import Workspace
from tests.counts import count
from tests.toolset.furnished_workspace import CANARY, look, read, swapping

PAIRS = (("swapped", "trap"), ("file", "file-trap"), ("plain", "hard"), ("other", "fifo"))
PATHS = ("swapped/secret", "swapped/a/b", "swapped/a", "file", "plain", "other", "swapped/new", "swapped/a/../secret")


def fill(root: pathlib.Path, outside: pathlib.Path) -> None:
    """What is not there of: a folder and a link, a file and a link, a file and a hard link, a file and a pipe."""
    with contextlib.suppress(OSError):
        (root / "swapped" / "a").mkdir(parents=True)
    for name in ("swapped/a/b", "swapped/secret", "file", "plain", "other"):
        with contextlib.suppress(OSError):
            descriptor = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
            os.write(descriptor, b"inside")
            os.close(descriptor)


def set_trap(tmp_path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A workspace with links to what lies outside of it, and that."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "a").mkdir(parents=True)
    root.mkdir()
    for secret in ("secret", "a/b", "hard"):
        (outside / secret).write_bytes(CANARY)
    (root / "trap").symlink_to(outside)
    (root / "file-trap").symlink_to(outside / "secret")
    return root, outside


def swapped(root: pathlib.Path) -> contextlib.AbstractContextManager[None]:
    """All four pairs are exchanged all the while."""
    return swapping(*(root / name for pair in PAIRS for name in pair))


def list_one(files: Workspace, path: str) -> bytes:
    with files.open_directory(path) as directory:
        return b"\n".join(os.fsencode(name) for name in os.listdir(directory))


def shift(files: Workspace, path: str, number: int) -> None:
    """There and back again."""
    files.move(path, f"moved{number}")
    files.move(f"moved{number}", path)


def copy(files: Workspace, path: str, number: int) -> bytes:
    files.copy(path, f"copy{number % 8}", overwrite=True, recursive=True)
    return read(files, f"copy{number % 8}")


def drop(files: Workspace, path: str, number: int) -> None:
    if path == "swapped/a":
        files.delete(path, kind="directory", recursive=True)
    else:
        files.delete(path, kind="file")


def edit(files: Workspace, path: str, number: int) -> None:
    def change(before: bytes | None) -> bytes:
        assert before is None or CANARY not in before
        return b"edited %d" % number

    files.write_file(path, change, existing=True, create_directories=False)


#: Each operation, and its share of a million.
OPERATIONS: dict[str, tuple[Callable[[Workspace, str, int], Any], int]] = {
    "read": (lambda files, path, _: read(files, path), 620_000),
    "list": (lambda files, path, _: list_one(files, path), 120_000),
    "state": (lambda files, path, _: files.state(path), 100_000),
    "write": (lambda files, path, number: files.write_file(path, b"written %d" % number), 40_000),
    "edit": (edit, 30_000),
    "append": (lambda files, path, _: files.write_file(path, b"+", append=True), 30_000),
    "delete": (drop, 20_000),
    "move": (shift, 15_000),
    "onto": (lambda files, path, _: files.move("source", path, overwrite=True), 5_000),
    "copy": (copy, 5_000),
    "make": (lambda files, path, number: files.make_directory(f"{path}-{number % 8}/x", parents=True), 10_000),
    "mode": (lambda files, path, number: files.change_mode(path, 0o600 + number % 8), 5_000),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_outside_is_reached_while_names_are_exchanged(tmp_path: pathlib.Path, name: str) -> None:
    act, times = OPERATIONS[name]
    root, outside = set_trap(tmp_path)
    os.link(outside / "hard", root / "hard")
    os.mkfifo(root / "fifo")
    fill(root, outside)
    before = look(outside)
    chance = random.Random(42)
    done = refused = escapes = 0
    # Of a hard link's content nobody can tell where it is at home; it may be read.
    paths = [path for path in PATHS if path != "plain" or name not in ("read", "copy", "edit")]
    with Workspace(root) as files, swapped(root):
        number = -1
        while (number := number + 1) < count(times, 200) or not (done and refused):
            if name in ("delete", "move", "onto") and number % 4 == 0:
                fill(root, outside)
            if name == "onto":
                # A refusal may leave there what was exchanged meanwhile.
                with contextlib.suppress(OSError):
                    os.unlink(root / "source")
                (root / "source").write_bytes(b"source")
            try:
                result = act(files, chance.choice(paths), number)
            except ToolFault:
                refused += 1
            else:
                done += 1
                escapes += isinstance(result, bytes) and CANARY in result
    print(f"{name}: {done} done, {refused} refused, {escapes} escapes")
    assert look(outside) == before
    assert escapes == 0


def test_the_race_is_real(tmp_path: pathlib.Path) -> None:
    """The instrument: a program that resolves first and opens then does escape."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder, content in ((root / "swapped", b"inside"), (outside, CANARY)):
        folder.mkdir(parents=True)
        (folder / "secret").write_bytes(content)
    (root / "trap").symlink_to(outside)

    def naive() -> bytes:
        try:
            resolved = os.path.realpath(root / "swapped" / "secret")
            return pathlib.Path(resolved).read_bytes() if resolved.startswith(f"{root}/") else b""
        except OSError:
            return b""

    with swapping(root / "swapped", root / "trap"):
        while naive() != CANARY:
            pass
