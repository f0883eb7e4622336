"""Every file tool is called for real: what it does, what it says, what it tells of changes, and how it refuses."""

import os
import pathlib
import stat
from collections.abc import AsyncIterator
from typing import Any

import pytest
from frozendict import frozendict

from ripieno.canisters.faults import Change
from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault
from ripieno.storage.undo import digest
from tests.toolset.file_tools import NAMES, Tools, file_tools


@pytest.fixture
async def tools(workspace: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[Tools]:
    async with file_tools(workspace, tmp_path) as found:
        yield found


async def refused(tools: Tools, name: str, code: str, **arguments: Any) -> ToolFault:
    with pytest.raises(ToolFault) as caught:
        await tools.call(name, **arguments)
    assert caught.value.code == code, caught.value
    return caught.value


async def test_reading(tools: Tools) -> None:
    (tools.workspace / "text").write_text("".join(f"line {number}\n" for number in range(1, 31)))
    whole = await tools.said("read_file", path="text")
    assert whole == await tools.said("cat", path="text")
    assert await tools.said("read_lines", path="text", start_line=3, end_line=4) == "line 3\nline 4\n"
    assert await tools.said("head", path="text") == "".join(whole.splitlines(keepends=True)[:10])
    assert await tools.said("tail", path="text") == "".join(whole.splitlines(keepends=True)[-10:])
    assert await tools.said("head", path="text", lines=1) == "line 1\n"
    assert await tools.said("tail", path="text", lines=1) == "line 30\n"
    assert await tools.said("head", path="text", lines=99) == whole == await tools.said("tail", path="text", lines=99)
    (tools.workspace / "open").write_text("a\nb")
    assert await tools.said("tail", path="open", lines=1) == "b"
    assert await tools.said("head", path="open", lines=1) == "a\n"
    (tools.workspace / "empty").touch()
    assert await tools.said("head", path="empty") == "" == await tools.said("tail", path="empty")
    await refused(tools, "read_lines", "missing_required", path="text", start_line=1)
    for name in NAMES["file_read"]:
        more = {"start_line": 1, "end_line": 1} if name == "read_lines" else {}
        fault = await refused(tools, name, "not_found", path="tex", **more)
        assert fault.suggestion == "Did you mean 'text'?"


async def test_the_end_of_a_file_that_is_too_large_is_read(tools: Tools) -> None:
    with (tools.workspace / "log").open("w") as log:
        log.write(("x" * 79 + "\n") * 200)
        log.truncate(100 * 2**20)
        log.seek(0, os.SEEK_END)
        log.write("\nlast but one\nlast\n")
    assert await tools.said("tail", path="log", lines=2) == "last but one\nlast\n"
    assert await tools.said("head", path="log", lines=1) == "x" * 79 + "\n"


async def test_writing_tells_hashes(tools: Tools) -> None:
    outcome = await tools.call("create_file", path="a/one", content="1\n")
    assert outcome.content == "Wrote 2 bytes to a/one, a new file."
    assert outcome.changes == (
        Change.of("DirectoryCreated", path="a"),
        Change.of("FileCreated", path="a/one", after=digest(b"1\n")),
    )
    fault = await refused(tools, "create_file", "exists", path="a/one", content="2")
    assert "exists already" in fault.message
    assert (tools.workspace / "a/one").read_text() == "1\n"
    outcome = await tools.call("append_file", path="log", content="1\n")
    assert outcome.changes == (Change.of("FileCreated", path="log", after=digest(b"1\n")),)
    outcome = await tools.call("append_file", path="a/one", content="2\n")
    assert outcome.changes == (Change.of("FileModified", path="a/one", before=digest(b"1\n"), after=digest(b"1\n2\n")),)
    outcome = await tools.call("write_file", path="a/one", content="3\n")
    assert outcome.changes == (Change.of("FileModified", path="a/one", before=digest(b"1\n2\n"), after=digest(b"3\n")),)
    assert (tools.workspace / "a/one").read_text() == "3\n"


async def test_an_edit_replaces_what_is_there_once(tools: Tools) -> None:
    file = tools.workspace / "code.py"
    file.write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")
    fault = await refused(tools, "edit_file", "ambiguous", path="code.py", old_content="return 1", new_content="2")
    assert fault.message == "'code.py' has old_content 2 times, at lines 2, 5."
    assert fault.details == {"lines": [2, 5]}
    outcome = await tools.call("edit_file", path="code.py", old_content="def f():\n", new_content="def f(x):\n")
    assert outcome.content.splitlines() == [
        "Replaced old_content in code.py at line 1.",
        "     1 | def f(x):",
        "     2 |     return 1",
        "     3 |",
    ]
    before = file.read_bytes()
    for occurrence, after in (("first", "5 1 1"), ("last", "1 1 5"), ("all", "5 5 5")):
        file.write_text("1 1 1")
        outcome = await tools.call("edit_file", path="code.py", old_content="1", new_content="5", occurrence=occurrence)
        assert file.read_text() == after
        changed = Change.of("FileModified", path="code.py", before=digest(b"1 1 1"), after=digest(after.encode()))
        assert outcome.changes == (changed,)
    file.write_bytes(b"\xef\xbb\xbf" + before)
    await tools.call("edit_file", path="code.py", old_content="def f", new_content="def h")
    assert file.read_bytes().startswith(b"\xef\xbb\xbfdef h")


async def test_an_edit_that_finds_nothing_helps(tools: Tools) -> None:
    file = tools.workspace / "code.py"
    file.write_text("def total(items):\n\tresult = sum(items)\n\treturn result\n")
    fault = await refused(
        tools, "edit_file", "no_match", path="code.py", old_content="    result = sum( items )", new_content="x"
    )
    assert "Lines 2 to 2 differ from it only in white space" in fault.message
    assert "     2 | \tresult = sum(items)" in fault.message
    fault = await refused(
        tools, "edit_file", "no_match", path="code.py", old_content="\tresult = sum(itemz)\n", new_content="x"
    )
    assert "most similar to its first line:\n     2 | \tresult = sum(items)" in fault.message
    file.write_bytes(b"one\r\ntwo\r\n")
    fault = await refused(tools, "edit_file", "no_match", path="code.py", old_content="one\ntwo", new_content="x")
    assert "the file's lines end with \\r\\n" in fault.message
    await refused(tools, "edit_file", "no_change", path="code.py", old_content="one", new_content="one")
    await refused(tools, "edit_file", "invalid_content", path="code.py", old_content="", new_content="one")


async def test_a_stale_edit_is_a_conflict(tools: Tools) -> None:
    """Whichever ensemble's tool has read it; what the conversation wrote itself is no surprise to it."""
    file = tools.workspace / "shared"
    file.write_text("one two")
    await tools.call("read_file", path="./shared")
    file.write_text("one two three")
    fault = await refused(tools, "edit_file", "conflict", path="shared", old_content="one", new_content="1")
    assert fault.suggestion == "Read it again, and edit its present content."
    await refused(tools, "patch_file", "conflict", patch="--- a/shared\n+++ b/shared\n@@ -1 +1 @@\n-x\n+y\n")
    tools.conversation = "another"
    await tools.call("edit_file", path="shared", old_content="three", new_content="3")
    tools.conversation = "conversation"
    await tools.call("head", path="shared")
    await tools.call("edit_file", path="shared", old_content="one", new_content="1")
    await tools.call("edit_file", path="shared", old_content="two", new_content="2")
    assert file.read_text() == "1 2 3"
    await tools.call("move_file", source="shared", destination="moved")
    (tools.workspace / "moved").write_text("1 2 3 4")
    await refused(tools, "edit_file", "conflict", path="moved", old_content="1", new_content="one")
    await tools.call("write_file", path="moved", content="own")
    await tools.call("edit_file", path="moved", old_content="own", new_content="mine")


async def test_reading_first_can_be_demanded(tools: Tools) -> None:
    (tools.workspace / "file").write_text("one")
    tools.configuration = frozendict(read_first=True)
    await refused(tools, "edit_file", "not_read", path="file", old_content="one", new_content="1")
    await tools.call("cat", path="file")
    await tools.call("edit_file", path="file", old_content="one", new_content="1")


PATCH = """\
diff --git a/old.txt b/new.txt
similarity index 50%
rename from old.txt
rename to new.txt
--- a/old.txt
+++ b/new.txt
@@ -1,2 +1,2 @@
 one
-two
+TWO
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
\\ No newline at end of file
diff --git a/folder/made.sh b/folder/made.sh
new file mode 100755
--- /dev/null
+++ b/folder/made.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+true
--- a/plain.txt
+++ b/plain.txt
@@ -2,3 +2,4 @@
 b
+B
 c
 d
"""


def furnish(workspace: pathlib.Path) -> None:
    (workspace / "old.txt").write_text("one\ntwo\n")
    (workspace / "gone.txt").write_text("bye")
    (workspace / "plain.txt").write_text("new\na\nb\nc\nd")


async def test_a_patch_changes_makes_deletes_and_renames(tools: Tools) -> None:
    furnish(tools.workspace)
    outcome = await tools.call("patch_file", patch=PATCH)
    assert outcome.content.splitlines() == [
        "Applied 4 hunks to 4 files:",
        "  renamed old.txt to new.txt",
        "  deleted gone.txt",
        "  made folder/made.sh",
        "  changed plain.txt",
    ]
    found = {str(one.relative_to(tools.workspace)) for one in tools.workspace.rglob("*")}
    assert found == {"new.txt", "folder", "folder/made.sh", "plain.txt"}
    assert (tools.workspace / "new.txt").read_text() == "one\nTWO\n"
    assert (tools.workspace / "plain.txt").read_text() == "new\na\nb\nB\nc\nd"
    assert stat.S_IMODE((tools.workspace / "folder/made.sh").stat().st_mode) == 0o755
    kinds = [change.kind for change in outcome.changes]
    assert kinds == [
        "FileCreated", "FileDeleted", "FileDeleted", "DirectoryCreated", "FileCreated", "FileModified",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "plain.txt").write_text("new\na\nb\nX\nd"), "Hunk 1 (@@ -2,3 +2,4 @@): line 2 is 'a'"),
        (lambda root: (root / "folder").write_text(""), "'folder' is not a directory"),
        (lambda root: (root / "new.txt").write_text(""), "'new.txt' exists already"),
        (
            lambda root: (root / "gone.txt").write_text("bye\nfor now"),
            "line 1 is 'bye', not 'bye' (the line ends differ)",
        ),
        (lambda root: (root / "old.txt").unlink(), "There is no 'old.txt'"),
        (lambda root: os.link(root / "plain.txt", root / "hard"), "has 2 names"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(tools: Tools, damage: Any, message: str) -> None:
    furnish(tools.workspace)
    damage(tools.workspace)
    before = {one: one.read_bytes() for one in tools.workspace.rglob("*") if one.is_file()}
    with pytest.raises(ToolFault) as caught:
        await tools.call("patch_file", patch=PATCH)
    assert message in caught.value.message
    assert {one: one.read_bytes() for one in tools.workspace.rglob("*") if one.is_file()} == before
    assert sorted(before) == sorted(one for one in tools.workspace.rglob("*"))
    assert list(tools.journal.entries()) == []


NO_PATCHES: list[tuple[str, str]] = [
    ("hello", "names no file"),
    ("--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b\n+c\n", "cannot be read"),
    ("--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n+lost\n", "Line 6 of the patch belongs to no hunk"),
    ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "has two names for one file"),
    ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/x\n+++ b/x\n@@ -3 +3 @@\n-a\n+b\n", "occurs twice"),
    ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "is not a text file in this patch"),
    ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copy it first"),
    ('--- "a/\\303\\251"\n+++ "b/\\303\\251"\n@@ -1 +1 @@\n-a\n+b\n', "is quoted"),
    ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "leaves the workspace"),
    ("--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+b\n", "controls what programs"),
]


async def test_what_is_no_patch_says_so(tools: Tools) -> None:
    for patch, message in NO_PATCHES:
        with pytest.raises(ToolFault) as caught:
            await tools.call("patch_file", patch=patch)
        assert message in caught.value.message
    assert list(tools.workspace.iterdir()) == []


async def test_a_hunk_that_moved_is_found_when_it_fits_once(tools: Tools) -> None:
    file = tools.workspace / "x"
    file.write_text("0\n" * 9 + "a\nb\nc\n" + "0\n")
    await tools.call("patch_file", patch="--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n a\n-b\n c\n")
    assert file.read_text() == "0\n" * 9 + "a\nc\n0\n"
    file.write_text("0\na\nb\nc\na\nb\nc\n")
    fault = await refused(
        tools, "patch_file", "no_match", patch="--- x\n+++ x\n@@ -9,3 +9,2 @@\n a\n-b\n c\n", path="x"
    )
    assert "at 2 other places: at 2, 5." in fault.message


async def test_managing_files(tools: Tools) -> None:
    root = tools.workspace
    (root / "one").write_text("1")
    (root / "one").chmod(0o640)
    outcome = await tools.call("copy_file", source="one", destination="deep/copy", create_directories=True)
    assert [change.kind for change in outcome.changes] == ["DirectoryCreated", "FileCreated"]
    assert stat.S_IMODE((root / "deep/copy").stat().st_mode) == 0o640
    await refused(tools, "copy_file", "exists", source="one", destination="deep/copy")
    fault = await refused(tools, "move_file", "exists", source="one", destination="deep")
    assert fault.suggestion == "Give the whole new path, such as 'deep/NAME'."
    (root / "one").write_text("2")
    assert "replacing the file there" in await tools.said(
        "copy_file", source="one", destination="deep/copy", overwrite=True
    )
    assert (root / "deep/copy").read_text() == "2"
    outcome = await tools.call("rename_file", path="deep/copy", new_name="renamed")
    assert outcome.content == "Moved deep/copy to deep/renamed."
    assert outcome.changes == (
        Change.of("FileDeleted", path="deep/copy", before=digest(b"2"), moved_to="deep/renamed"),
        Change.of("FileCreated", path="deep/renamed", after=digest(b"2")),
    )
    await refused(tools, "rename_file", "invalid_path", path="one", new_name="../one")
    await refused(tools, "rename_file", "invalid_path", path="one", new_name="..")
    await tools.call("move_file", source="one", destination="deep/renamed", overwrite=True)
    assert (root / "deep/renamed").read_text() == "2"
    assert not (root / "one").exists()
    outcome = await tools.call("chmod", path="deep/renamed", mode="755")
    assert outcome.content == "deep/renamed now has mode 755; it was 640."
    assert outcome.changes == (Change.of("FileModified", path="deep/renamed", mode_before="0640", mode_after="0755"),)
    for mode in ("4755", "02711", "1777"):
        await refused(tools, "chmod", "out_of_range", path="deep/renamed", mode=mode)
    assert stat.S_IMODE((root / "deep/renamed").stat().st_mode) == 0o755
    outcome = await tools.call("delete_file", path="deep/renamed")
    assert outcome.changes == (Change.of("FileDeleted", path="deep/renamed", before=digest(b"2")),)
    assert os.listdir(root / "deep") == []
    await refused(tools, "delete_file", "not_found", path="deep/renamed")


async def test_nobody_is_told_to_write_outside(tools: Tools, tmp_path: pathlib.Path) -> None:
    (tmp_path / "beside").write_text("theirs")
    (tools.workspace / "file").write_text("1")
    outside = "It leads out of the workspace, where nothing can be changed: use another path."
    inside = "Write to the file that it points to."
    for target, said in (
        (tmp_path / "beside", outside),
        (tmp_path / "missing", outside),
        ("../beside", outside),
        ("folder/up", outside),
        ("file", inside),
        (tools.workspace / "file", inside),
        ("missing", inside),
        ("link", inside),
    ):
        (tools.workspace / "folder").mkdir(exist_ok=True)
        if str(target) == "folder/up":
            (tools.workspace / "folder/up").symlink_to("../../beside")
        (tools.workspace / "link").unlink(missing_ok=True)
        (tools.workspace / "link").symlink_to(target)
        with pytest.raises(PermissionFault, match="is a link to ") as caught:
            await tools.call("write_file", path="link", content="2")
        assert caught.value.suggestion == said, target
    assert (tmp_path / "beside").read_text() == "theirs"


async def test_a_link_is_deleted_and_not_what_it_points_to(tools: Tools) -> None:
    (tools.workspace / "file").write_text("kept")
    (tools.workspace / "link").symlink_to("file")
    for name, arguments in (
        ("move_file", {"source": "link", "destination": "x"}),
        ("chmod", {"path": "link", "mode": "600"}),
        ("move_file", {"source": "file", "destination": "link", "overwrite": True}),
        ("copy_file", {"source": "file", "destination": "link", "overwrite": True}),
    ):
        with pytest.raises(PermissionFault, match="is a link to 'file'"):
            await tools.call(name, **arguments)
    await tools.call("delete_file", path="link")
    assert os.listdir(tools.workspace) == ["file"]


async def test_directories(tools: Tools) -> None:
    root = tools.workspace
    assert (await tools.call("mkdir", path="a")).changes == (Change.of("DirectoryCreated", path="a"),)
    assert len((await tools.call("create_directory", path="a/b/c")).changes) == 2
    assert await tools.said("create_directory", path="a/b/c") == "a/b/c already exists."
    (root / "a/file").write_text("1")
    await refused(tools, "rmdir", "not_empty", path="a")
    fault = await refused(tools, "delete_directory", "not_empty", path="a")
    assert fault.suggestion is not None
    assert "recursive = true" in fault.suggestion
    await refused(tools, "copy", "is_directory", source="a", destination="z")
    outcome = await tools.call("copy", source="a", destination="z", recursive=True)
    assert outcome.content == "Copied a to z."
    await refused(tools, "copy", "into_itself", source="a", destination="a/b/d", recursive=True)
    await refused(tools, "move", "into_itself", source="a", destination="a/b/d")
    outcome = await tools.call("move", source="z", destination="a/b/z")
    assert (root / "a/b/z/file").read_text() == "1"
    # All that is in it, as copying and deleting have it.
    inside = ("z/b", "z/b/c", "z/file")
    assert sorted((one.kind, str(one.data["path"])) for one in outcome.changes) == sorted(
        [
            *(("FileDeleted", path) for path in (*inside, "z")),
            *(("DirectoryCreated", f"a/b/{path}") for path in ("z", "z/b", "z/b/c")),
            ("FileCreated", "a/b/z/file"),
        ]
    )
    await tools.call("rmdir", path="a/b/c")
    for path in (".", "", "a/.."):
        with pytest.raises(ToolFault):
            await tools.call("delete_directory", path=path, recursive=True)
    outcome = await tools.call("delete_directory", path="a", recursive=True)
    assert outcome.content == "Deleted a with 6 entries in it."
    assert list(root.iterdir()) == []


async def test_listing(tools: Tools) -> None:
    for name in ("src/a.py", "src/deep/b.py", "src/deep/c.txt", ".hidden/d.py", "top.py"):
        (tools.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (tools.workspace / name).write_text("12345")
    (tools.workspace / "loop").symlink_to(".")
    size = " (5 bytes)"
    assert await tools.said("list_dir") == f"loop -> .\nsrc/\ntop.py{size}"
    assert await tools.said("list_files") == await tools.said("list_dir")
    assert (await tools.said("list_files", recursive=True)).splitlines() == [
        "loop -> .", "src/", f"src/a.py{size}", "src/deep/", f"src/deep/b.py{size}", f"src/deep/c.txt{size}",
        f"top.py{size}",
    ]  # fmt: skip
    assert "src/deep/b.py" not in await tools.said("list_files", recursive=True, max_depth=2)
    found = await tools.said("list_files", recursive=True, pattern="*.py", include_hidden=True)
    assert [line.split()[0] for line in found.splitlines()] == [".hidden/d.py", "src/a.py", "src/deep/b.py", "top.py"]
    assert await tools.said("list_files", recursive=True, pattern="src/*.py") == f"src/a.py{size}"
    assert len((await tools.said("list_files", recursive=True, pattern="src/**/*.py")).splitlines()) == 2
    assert await tools.said("list_files", pattern="*.rs") == "Nothing in . matches '*.rs'."
    assert (await tools.said("tree", path="src")).splitlines() == [
        "src/", f"    a.py{size}", "    deep/", f"        b.py{size}", f"        c.txt{size}",
    ]  # fmt: skip
    assert len((await tools.said("tree", max_depth=1)).splitlines()) == 4
    await refused(tools, "tree", "not_a_directory", path="top.py")


async def test_what_is_special_is_refused_and_what_is_large_answered(tools: Tools) -> None:
    root = tools.workspace
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    os.mkfifo(root / "folder/fifo")
    (root / "plain").write_text("1")
    os.link(root / "plain", root / "other")
    os.truncate(os.open(root / "sparse", os.O_CREAT | os.O_WRONLY), 1 << 40)
    one: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {}), ("head", {}), ("tail", {}), ("cat", {}), ("write_file", {"content": ""}),
        ("append_file", {"content": ""}), ("edit_file", {"old_content": "1", "new_content": "2"}),
        ("delete_file", {}), ("rename_file", {"new_name": "x"}), ("chmod", {"mode": "600"}),
    ]  # fmt: skip
    for name, arguments in one:
        await refused(tools, name, "special_file", path="fifo", **arguments)
    for name in ("move_file", "copy_file"):
        await refused(tools, name, "special_file", source="fifo", destination="x")
        await refused(tools, name, "special_file", source="plain" if name == "copy_file" else "sparse",
                      destination="fifo", overwrite=True)  # fmt: skip
    await refused(tools, "delete_directory", "special_file", path="folder", recursive=True)
    await refused(tools, "copy", "special_file", source="folder", destination="x", recursive=True)
    for name, arguments in one[4:]:
        await refused(tools, name, "hard_link", path="other", **arguments)
    await refused(tools, "move_file", "hard_link", source="other", destination="x")
    (root / "folder/fifo").unlink()
    os.link(root / "plain", root / "folder/third")
    await refused(tools, "delete_directory", "hard_link", path="folder", recursive=True)
    for name in ("read_file", "cat", "head"):
        with pytest.raises(ResourceFault, match="sparse"):
            await tools.call(name, path="sparse")
    await refused(tools, "copy_file", "too_large", source="sparse", destination="x")
    await refused(tools, "edit_file", "too_large", path="sparse", old_content="1", new_content="2")
    await refused(tools, "copy", "too_large", source="sparse", destination="x")
    said = await tools.said("delete_file", path="sparse")
    assert said == "Deleted sparse. It cannot be undone: the former content is too large to be kept."
    assert sorted(os.listdir(root)) == ["fifo", "folder", "other", "plain"]
