"""What tools say of one thing and of none, and what each refusal tells a model to do next."""

import itertools
import os
import pathlib
from typing import Any

import pytest

from ripieno.toolset.arguments import several
from tests.skips import needs
from tests.support.git_repositories import make_repository, plain_git
from tests.toolset.bundled_tools import code_of, text_of, tools_of


def test_numbers_are_said_as_people_say_them() -> None:
    assert [several(number, "byte") for number in (0, 1, 2)] == ["0 bytes", "1 byte", "2 bytes"]
    assert [several(number, "entry", "entries") for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "workspace"
    (folder / "folder").mkdir(parents=True)
    (folder / "one").write_text("x")
    (folder / "folder" / "one").write_text("x")
    (folder / "binary").write_bytes(b"\0")
    (folder / "empty").write_text("")
    (folder / "latin").write_bytes(b"\xe9")
    return folder


#: A call that is refused, the code of its fault, and words of its message.
REFUSALS: list[tuple[str, dict[str, Any], str, tuple[str, ...]]] = [
    ("file_read.read_file", {"path": "nothing"}, "not_found", ("'nothing'", "List the directory")),
    ("file_read.read_file", {"path": "binary"}, "binary_file", ("of 1 byte,", 'encoding = "utf-16"')),
    ("file_read.read_file", {"path": "one", "start_line": 3}, "out_of_range", ("has 1 line;", "from 1 to 1")),
    ("file_read.read_file", {"path": "empty", "start_line": 3}, "out_of_range", ("0 lines", "is empty")),
    ("file_read.cat", {"path": "large"}, "too_large", ("'large'", "read_file with start_line", "tail")),
    ("file_read.cat", {"path": "../x"}, "outside_workspace", ("'../x'", "beneath the workspace")),
    ("file_write.write_file", {"path": ".git/x", "content": ""}, "control_file", ("'.git'", "Ask the user")),
    ("file_write.create_file", {"path": "one", "content": ""}, "exists", ("'one'", "write_file")),
    ("file_write.write_file", {"path": "a/b", "content": "", "create_directories": False}, "not_found",
     ("no 'a'", "create_directories = true")),
    ("file_write.edit_file", {"path": "a/b", "old_content": "x", "new_content": "y"}, "not_found",
     ("no 'a'", "List the directory")),
    ("file_write.edit_file", {"path": "binary", "old_content": "x", "new_content": "y"}, "binary_file",
     ("'binary'", "write_file")),
    ("file_write.edit_file", {"path": "latin", "old_content": "x", "new_content": "y"}, "wrong_encoding",
     ("'latin'", "byte 0", "write_file")),
    ("file_write.patch_file", {"patch": "--- a/one\n+++ b/one\n@@ -8,0 +9,1 @@\n+x\n"}, "no_match",
     ("the file has 1 line.", "Read the file again")),
    ("directory.mkdir", {"path": "a/b"}, "not_found", ("no 'a'", "parents = true")),
    ("directory.mkdir", {"path": "folder"}, "exists", ("'folder'", "Use it as it is")),
    ("directory.move", {"source": "one", "destination": "a/b"}, "not_found", ("no 'a'", "create_directories")),
    ("directory.move", {"source": "one", "destination": "empty/b"}, "not_a_directory",
     ("'empty'", "have to be directories")),
    ("directory.copy", {"source": "folder", "destination": "a/b", "recursive": True}, "not_found",
     ("no 'a'", "create_directories = true")),
    ("directory.rmdir", {"path": "one"}, "not_a_directory", ("'one'", "delete_file")),
    ("file_manage.delete_file", {"path": "folder"}, "is_directory", ("'folder'", "delete_directory")),
    ("search.search", {"pattern": "x", "path": "binary"}, "binary_file", ("of 1 byte,", "a directory")),
    ("search.grep", {"pattern": "("}, "invalid_pattern", ("a backslash", "or use search")),
    ("validation.lint", {"directory": "folder"}, "no_tool", ("files of a known language", "directory of the project")),
]  # fmt: skip


async def test_a_refusal_says_what_where_and_what_next(workspace: pathlib.Path) -> None:
    with (workspace / "large").open("wb") as file:
        file.write(b"x\n" * (6 << 20))
    for ensemble, cases in itertools.groupby(REFUSALS, key=lambda case: case[0].partition(".")[0]):
        async with tools_of(ensemble, workspace) as tools:
            for tool, arguments, code, words in cases:
                result = await tools(tool.partition(".")[2], **arguments)
                assert code_of(result) == code, tool
                assert [word for word in words if word not in text_of(result)] == []
                assert result.error is not None
                assert result.error.suggestion, tool


async def test_what_a_huge_folder_leaves_out_is_counted(workspace: pathlib.Path) -> None:
    (workspace / "many").mkdir()
    for number in range(10_003):
        (workspace / "many" / f"{number:05}").touch()
    async with tools_of("directory", workspace) as tools:
        for arguments, count in (({"path": "many"}, 3), ({"recursive": True, "path": "many"}, 3)):
            text = text_of(await tools("list_files", **arguments))
            assert text.endswith(f"\n[... {count} more entries left out ...]")
        text = text_of(await tools("list_files", recursive=True, pattern="10*"))
        assert text == "[... 3 entries not examined: use find_files, or a smaller directory ...]"
        text = text_of(await tools("list_files", recursive=True, pattern="0999[89]"))
        assert text.splitlines()[:2] == ["many/09998 (0 bytes)", "many/09999 (0 bytes)"]
        (workspace / "many" / "10000").unlink()
        (workspace / "many" / "10001").unlink()
        assert text_of(await tools("list_files", path="many")).endswith("\n[... 1 more entry left out ...]")


@needs("git")
async def test_git_says_what_next(workspace: pathlib.Path) -> None:
    make_repository(workspace / "it")
    plain_git(workspace / "it", "checkout", "--quiet", "--", "file.txt")
    (workspace / "it" / "new").write_text("")
    async with tools_of("git", workspace) as tools:
        for arguments, words in (({}, "git_add first"), ({"all": True}, "stage new files with git_add")):
            result = await tools("git_commit", directory="it", message="it", **arguments)
            assert code_of(result) == "exit_code"
            assert words in text_of(result)
        os.unlink(workspace / "it" / "file.txt")
        assert (await tools("git_commit", directory="it", message="it", all=True)).error is None
