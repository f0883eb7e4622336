"""Whatever the system refuses in the middle of a call, the tool explains it: no exception leaves it."""

import errno
import os
import pathlib
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.counts import count
from tests.skips import needs
from tests.toolset.bundled_tools import code_of, text_of, tools_of
from tests.toolset.test_hostile_arguments import furnish

FAILING = ("readlink", "stat", "lstat", "fstat", "open", "scandir", "listdir", "mkdir", "rename", "unlink", "rmdir",
           "pread", "write", "symlink", "fchmod", "chmod", "fsync")  # fmt: skip
ERRORS = (errno.EINVAL, errno.EIO, errno.ENOENT, errno.ELOOP, errno.EMFILE, errno.ENOSPC, errno.ESTALE, errno.EACCES)
PLAIN: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "file_read": [("cat", {"path": "up/workspace/folder/file"}), ("head", {"path": "file"})],
    "file_write": [
        ("write_file", {"path": "new/file", "content": "y"}),
        ("append_file", {"path": "file", "content": "y"}),
        ("edit_file", {"path": "here/file", "old_content": "x", "new_content": "y"}),
        ("patch_file", {"patch": "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-x\n+y\n"}),
    ],
    "file_manage": [
        ("chmod", {"path": "file", "mode": "600"}),
        ("copy_file", {"source": "file", "destination": "copy"}),
        ("move_file", {"source": "file", "destination": "folder/moved"}),
        ("delete_file", {"path": "broken"}),
    ],
    "directory": [
        ("list_files", {"path": "here", "recursive": True}),
        ("move", {"source": "folder", "destination": "moved"}),
        ("copy", {"source": "folder", "destination": "copied", "recursive": True}),
        ("delete_directory", {"path": "folder", "recursive": True}),
        ("create_directory", {"path": "new/folder"}),
    ],
    "search": [
        ("search", {"pattern": "x", "path": "here/folder"}),
        ("find_files", {"pattern": "*", "path": "here/folder"}),
        ("search", {"pattern": "x", "path": "here/file"}),
    ],
    "git": [("git_status", {"directory": "here/repo"}), ("git_clone", {"source": "repo", "directory": "here/new"})],
    "validation": [("syntax_check", {"paths": ["here/x.py"]}), ("lint", {"directory": "here"})],
}

#: Ensembles that write into pipes, which do not fail so.
PIPING = ("git", "validation")


class Failing:
    """A function of the system that fails once, after some calls."""

    def __init__(self, original: Callable[..., Any], number: int, left: int) -> None:
        self._original = original
        self._number = number
        self._left = left

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self._left -= 1
        if self._left == -1 and threading.current_thread().name.startswith(("ripieno", "MainThread")):
            raise OSError(self._number, os.strerror(self._number))
        return self._original(*arguments, **more)


@needs("git")
@pytest.mark.parametrize("ensemble", PLAIN)
async def test_no_error_of_the_system_is_a_bug(
    tmp_path: pathlib.Path, ensemble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each use of the system may fail with any error, as when another program exchanges names meanwhile."""
    chance = random.Random(ensemble)
    found: list[str] = []
    (tmp_path / "workspace").mkdir()
    failing = [one for one in FAILING if one != "write" or ensemble not in PIPING]
    async with tools_of(ensemble, tmp_path / "workspace") as tools:
        for tool, chosen in PLAIN[ensemble]:
            for _ in range(count(300)):
                furnish(tmp_path / "workspace", repository=ensemble == "git")
                name, number, left = chance.choice(failing), chance.choice(ERRORS), chance.randint(0, 8)
                with monkeypatch.context() as patch:
                    patch.setattr(os, name, Failing(getattr(os, name), number, left))
                    result = await tools(tool, **chosen)
                # An exception that the tool lets through has its name in the details.
                if code_of(result) == "tool_failure" or (result.error and "exception" in result.error.details):
                    found.append(f"{tool} {name} {errno.errorcode[number]}: {text_of(result)}")
    print(f"{ensemble}: {len(found)} breaks", *found, sep="\n")
    assert found == []
