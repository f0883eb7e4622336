"""Changes of files beneath a folder, as the kernel reports them."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from ripieno.sandbox import changed_files
from ripieno.sandbox.changed_files import MOST, REPORTED, FileChange, WatchedFolder
from tests.skips import lacking, needs

pytestmark = needs("inotify", there=sys.platform == "linux")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("old", "old/deep", ".git"):
        (tmp_path / name).mkdir()
    for name in ("a.txt", "old/b.txt", "old/deep/c.txt", ".git/config"):
        (tmp_path / name).write_text("before")
    return tmp_path


def replace(root: pathlib.Path) -> None:
    (root / "new").write_text("after")
    (root / "new").replace(root / "a.txt")


def remake(root: pathlib.Path) -> None:
    shutil.rmtree(root / "old")
    (root / "old").mkdir()
    (root / "old" / "b.txt").write_text("after")


def pass_by(root: pathlib.Path) -> None:
    (root / "x").mkdir()
    (root / "x" / "y").touch()
    shutil.rmtree(root / "x")
    (root / "a.txt").read_text()


CHANGES: dict[str, tuple[Callable[[pathlib.Path], object], list[tuple[str, str]]]] = {
    "created": (lambda root: (root / "new").touch(), [("FileCreated", "new")]),
    "modified": (lambda root: (root / "old/deep/c.txt").write_text("after"), [("FileModified", "old/deep/c.txt")]),
    "mode": (lambda root: (root / "a.txt").chmod(0o700), [("FileModified", "a.txt")]),
    "deleted": (lambda root: (root / "old/b.txt").unlink(), [("FileDeleted", "old/b.txt")]),
    "replaced": (replace, [("FileModified", "a.txt")]),
    "moved": (
        lambda root: (root / "a.txt").rename(root / "old/a.txt"),
        [("FileDeleted", "a.txt"), ("FileCreated", "old/a.txt")],
    ),
    "new folders": (
        lambda root: shutil.copytree(root / "old", root / "copy/old"),
        [
            ("DirectoryCreated", "copy"),
            ("DirectoryCreated", "copy/old"),
            ("FileCreated", "copy/old/b.txt"),
            ("DirectoryCreated", "copy/old/deep"),
            ("FileCreated", "copy/old/deep/c.txt"),
        ],
    ),
    "moved folder": (
        lambda root: (root / "old/deep").rename(root / "deep"),
        [
            ("DirectoryCreated", "deep"),
            ("FileCreated", "deep/c.txt"),
            ("FileDeleted", "old/deep"),
            ("FileDeleted", "old/deep/c.txt"),
        ],
    ),
    "made again": (
        remake,
        [("FileModified", "old/b.txt"), ("FileDeleted", "old/deep"), ("FileDeleted", "old/deep/c.txt")],
    ),
    "only in between": (pass_by, []),
    "a link to a folder": (lambda root: (root / "link").symlink_to("/etc"), [("FileCreated", "link")]),
    "git's own files": (lambda root: (root / ".git/config").write_text("after"), []),
    "a name that is no text": (
        lambda root: os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT)),
        [("FileCreated", "\\xff")],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_each_look_has_its_own_changes(folder: pathlib.Path, case: str) -> None:
    change, expected = CHANGES[case]
    watched = WatchedFolder(str(folder))
    assert not watched.listed
    first = watched.begin()
    assert watched.listed
    change(folder)
    second = watched.begin()
    (folder / "later").touch()
    assert sorted(watched.end(first)) == sorted([*expected, ("FileCreated", "later")])
    assert watched.end(second) == [("FileCreated", "later")]
    assert (first.unknown, second.unknown) == ("", "")
    assert watched.end(watched.begin()) == []
    watched.close()


def test_the_first_look_runs_no_code_for_each_file(folder: pathlib.Path) -> None:
    for number in range(500):
        (folder / f"{number}.txt").touch()
    watched, calls = WatchedFolder(str(folder)), list[str]()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        watched.begin()
    finally:
        sys.setprofile(None)
        watched.close()
    assert 0 < len(calls) < 300


def test_what_changes_while_a_look_is_renewed_is_in_one_of_them(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, names = WatchedFolder(str(folder)), [f"{number}.txt" for number in range(3_000)]
    # On a loaded machine, all of them may come between two looks.
    monkeypatch.setattr(changed_files, "REPORTED", len(names))
    look = watched.begin()
    found: list[FileChange] = []
    with subprocess.Popen(["touch", *names], cwd=folder) as writer:
        while writer.poll() is None:
            changes, look = watched.renew(look)
            found += changes
    found += watched.end(look)
    assert sorted(path for kind, path in found if kind == "FileCreated") == sorted(names)


def test_a_long_look_is_bounded_and_ends_with_the_watch(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "MOST", 20)
    watched = WatchedFolder(str(folder))
    long, short = watched.begin(), watched.begin()
    for number in range(21):
        (folder / f"{number}").touch()
        (folder / f"{number}").unlink()
        if number == 15:
            assert watched.end(short) == []
            short = watched.begin()
    assert (watched.end(long), long.unknown) == ([], "more than 20 files changed")
    assert (watched.end(short), short.unknown) == ([], "")
    last = watched.begin()
    watched.close()
    watched.begin()
    assert (watched.end(last), last.unknown) == ([], "the watch was ended")


def test_a_folder_that_moved_is_watched_at_its_new_place(folder: pathlib.Path) -> None:
    watched = WatchedFolder(str(folder))
    look = watched.begin()
    (folder / "old").rename(folder / "new")
    watched.end(look)
    look = watched.begin()
    (folder / "new/deep/d.txt").touch()
    assert watched.end(look) == [("FileCreated", "new/deep/d.txt")]
    watched.close()


def test_what_is_too_much_is_reported_as_unknown(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedFolder(str(folder))
    look = watched.begin()
    for number in range(REPORTED + 1):
        (folder / str(number)).touch()
    assert len(watched.end(look)) == REPORTED
    assert look.unknown == f"only the first {REPORTED} of {REPORTED + 1} are listed"
    monkeypatch.setattr(changed_files, "MOST", 100)
    look = watched.begin()
    shutil.copytree(folder / "old", folder / "copy")
    assert watched.end(look) == []
    assert look.unknown == "the folder has more than 100 files"
    # It stays off.
    assert (watched.listed, watched.begin().unknown) == (True, "the folder has more than 100 files")
    watched.close()
    assert MOST >= 10_000


def test_too_many_events_at_once_end_only_the_looks_that_are_open(folder: pathlib.Path) -> None:
    limit = int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 20_000:
        lacking("a queue of events that is short enough to fill quickly")
    watched = WatchedFolder(str(folder))
    look = watched.begin()
    one, other = folder / "a.txt", folder / "old/b.txt"
    for _ in range(limit // 2 + 1):
        one.touch()
        other.touch()
    assert watched.end(look) == []
    assert look.unknown == "there were too many at once"
    look = watched.begin()
    one.touch()
    assert watched.end(look) == [("FileModified", "a.txt")]
    watched.close()
