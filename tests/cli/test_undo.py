"""``ripieno undo``: lists, takes back, refuses, and says so in words, JSON and exit codes."""

import json
import pathlib

import pytest

from tests.support.command_line import User
from tests.support.users import Call

TOOLS = '[ensembles]\nenabled = ["file_read", "file_write", "file_manage", "directory"]\n'


@pytest.fixture
def changed(user: User, call: Call) -> Call:
    """Three changes: a file is made, edited and deleted."""
    user.configure(TOOLS)
    for tool, *pairs in (
        ("file_write.create_file", "path=notes/todo", "content=one two"),
        ("file_write.edit_file", "path=notes/todo", "old_content=two", "new_content=three"),
        ("file_manage.delete_file", "path=notes/todo"),
    ):
        assert call("invoke", tool, *pairs, "--yes").code == 0
    return call


def test_several_are_taken_back_latest_first(changed: Call, user: User) -> None:
    done = changed("undo", "2")
    assert [line.split(",")[0] for line in done.out.splitlines() if line.startswith("Undone")] == [
        "Undone: file_manage.delete_file",
        "Undone: file_write.edit_file",
    ]
    assert done.out.count("  restored: notes/todo\n") == 2
    assert (user.workspace / "notes/todo").read_text() == "one two"
    done = changed("undo", "9")
    assert done.code == 0
    assert done.out.splitlines()[1:3] == ["  removed: notes/todo", "  removed: notes"]
    assert done.out.endswith("Undone: 1 of 9. No more changes are recorded.\n")
    assert list(user.workspace.iterdir()) == []
    done = changed("undo")
    assert (done.code, done.out) == (1, f"There is nothing to undo in {user.workspace}.\n")


def test_what_has_changed_since_is_refused(changed: Call, user: User) -> None:
    (user.workspace / "notes/todo").write_text("mine")
    done = changed("undo", "3")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        "  'notes/todo' has changed since.",
        "To skip it, and undo the changes before it: ripieno undo --skip 3",
    ]
    assert (user.workspace / "notes/todo").read_text() == "mine"
    done = changed("undo", "--format", "json")
    assert done.code == 1
    (one,) = json.loads(done.out)["undone"]
    assert (one["restored"], one["refused"]) == ([], ["'notes/todo' has changed since."])


def test_the_list_says_what_n_would_take_back(changed: Call) -> None:
    done = changed("undo", "--list")
    lines = done.out.splitlines()
    assert lines[0].split() == ["N", "TIME", "(UTC)", "TOOL", "CHANGED"]
    assert [(line.split()[0], line.split("  ")[-1].strip()) for line in lines[1:]] == [
        ("1", "- notes/todo"),
        ("2", "~ notes/todo"),
        ("3", "+ notes, + notes/todo"),
    ]
    cut = changed("undo", "1", "--list")
    assert (len(cut.out.splitlines()), cut.err) == (2, "Showing the last 1. For more: ripieno undo --list 2\n")
    assert done.err == ""
    entries = json.loads(changed("undo", "--list", "--format", "json").out)["changes"]
    assert [entry["cause"]["tool"] for entry in entries][:1] == ["file_manage.delete_file"]
    assert entries[0]["steps"][0]["before"]["size"] == len("one three")


@pytest.fixture
def barred(user: User, call: Call) -> Call:
    """Three changes, of which the last cannot be taken back."""
    user.configure(TOOLS)
    for path in ("first", "second"):
        assert call("invoke", "file_write.create_file", f"path={path}", "content=one", "--yes").code == 0
    (user.workspace / "large").write_bytes(b"x" * (10 * 2**20 + 1))
    assert call("invoke", "file_manage.delete_file", "path=large", "--yes").code == 0
    return call


def test_what_cannot_be_undone_is_passed_over(barred: Call, user: User) -> None:
    lines = barred("undo", "--list").out.splitlines()
    assert lines[1].endswith("- large (cannot be undone: too large to record)")
    assert lines[2].endswith("+ second")
    kept = [one["kept"] for one in json.loads(barred("undo", "--list", "--format", "json").out)["changes"]]
    assert kept == [False, True, True]
    done = barred("undo", "2")
    assert (done.code, done.out.splitlines()[1:]) == (
        1,
        [
            "  What 'large' was before is too large, and was not kept.",
            "To skip it, and undo the changes before it: ripieno undo --skip 2",
        ],
    )
    done = barred("undo", "1", "--skip")
    assert (done.code, done.out.splitlines()[1:]) == (1, ["  What 'large' was before is too large, and was not kept."])
    assert sorted(one.name for one in user.workspace.iterdir()) == ["first", "second"]
    # As many as the list has them: the one that is passed over is counted.
    done = barred("undo", "2", "--skip")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("  ")][1:] == ["  removed: second"]
    assert [one.name for one in user.workspace.iterdir()] == ["first"]
    # Without a number, it is one, wherever it is.
    done = barred("undo", "--skip", "--format", "json")
    assert done.code == 0
    assert [one["restored"] for one in json.loads(done.out)["undone"]] == [[], ["first"]]
    assert list(user.workspace.iterdir()) == []
    done = barred("undo", "--skip")
    assert (done.code, len(done.out.splitlines())) == (1, 2)
    assert barred("undo").out.endswith(": ripieno undo --skip\n")


def test_what_cannot_be_undone_is_passed_over_up_to_a_mark(call: Call, user: User) -> None:
    user.configure(TOOLS.replace('"directory"]', '"directory", "control"]'))
    for tool, *pairs in (
        ("file_write.create_file", "path=first", "content=one"),
        ("control.checkpoint", "label=over here"),
        ("file_write.create_file", "path=second", "content=one"),
    ):
        assert call("invoke", tool, *pairs, "--yes").code == 0
    (user.workspace / "large").write_bytes(b"x" * (10 * 2**20 + 1))
    assert call("invoke", "file_manage.delete_file", "path=large", "--yes").code == 0
    done = call("undo", "--to", "over here")
    assert (done.code, done.out.splitlines()[-1].split(": ")[1]) == (1, "ripieno undo --skip --to 'over here'")
    done = call("undo", "--skip", "--to", "over here")
    assert done.code == 0
    assert [one.name for one in user.workspace.iterdir()] == ["first"]


def test_mistakes_are_said(call: Call, user: User, tmp_path: pathlib.Path) -> None:
    assert call("undo", "--list").out == "There are no changes to undo.\n"
    for arguments in (("0",), ("x",), ("--list", "--skip"), ("2", "--to", "here"), ("--to", "here")):
        done = call("undo", *arguments)
        assert (done.code, done.out) == (2, "")
    assert "There are no marks, so no 'here'." in done.err
    done = call("--workspace", str(tmp_path), "undo")
    assert done.code == 2
    assert "it contains your state folder" in done.err
    assert "ripieno undo 3" in call("undo", "--help").out
