"""No file that a tool makes, writes or sets the mode of lends the identity of its owner or group."""

import itertools
import os
import pathlib
import stat
from typing import Any

import pytest

from ripieno.exceptions import ToolFault
from tests.counts import ATTACK
from tests.toolset.file_tools import file_tools

BITS = (0o4000, 0o2000, 0o6000, 0o7000) if ATTACK else (0o6000,)
MODES = ("4755", "2755", "6777", "7000", "04755", "1777", "0755")
PATCH = "diff --git a/{0} b/{1}\n{2}--- a/{0}\n+++ b/{1}\n@@ -1 +1 @@\n-x\n+y\n"
NEW = "diff --git a/new b/new\nnew file mode 10{:0>4}\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+y\n"
RENAME = "rename from lends\nrename to new\n"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "lends", "content": "y"}),
    ("write_file", {"path": "lends", "content": "y", "mode": "append"}),
    ("append_file", {"path": "lends", "content": "y"}),
    ("edit_file", {"path": "lends", "old_content": "x", "new_content": "y"}),
    ("copy_file", {"source": "lends", "destination": "new"}),
    ("copy_file", {"source": "lends", "destination": "plain", "overwrite": True}),
    ("copy_file", {"source": "plain", "destination": "lends", "overwrite": True}),
    ("copy", {"source": "tree", "destination": "new", "recursive": True}),
    ("patch_file", {"patch": PATCH.format("lends", "lends", "")}),
    ("patch_file", {"patch": PATCH.format("lends", "new", RENAME)}),
    *(("chmod", {"path": "lends", "mode": mode}) for mode in MODES),
    *(("chmod", {"path": "plain", "mode": mode}) for mode in MODES),
    *(
        ("patch_file", {"patch": PATCH.format("lends", "lends", f"old mode 100644\nnew mode 10{mode:0>4}\n")})
        for mode in MODES
    ),
    *(
        ("patch_file", {"patch": NEW.format(mode)})
        for mode in MODES
    ),
]  # fmt: skip


def lending(root: pathlib.Path) -> dict[tuple[int, int, int], str]:
    """The files beneath a folder that lend an identity: number, times and mode of each."""
    found: dict[tuple[int, int, int], str] = {}
    for one in root.rglob("*"):
        about = one.lstat()
        if stat.S_ISREG(about.st_mode) and about.st_mode & 0o6000:
            found[about.st_ino, about.st_mtime_ns, about.st_mode] = one.name
    return found


@pytest.mark.parametrize("bits", BITS)
async def test_no_tool_leaves_a_file_that_lends_an_identity(tmp_path: pathlib.Path, bits: int) -> None:
    lent: list[str] = []
    for number, (name, arguments) in enumerate(CALLS):
        root = tmp_path / "workspaces" / str(number)
        (root / "tree" / "inner").mkdir(parents=True)
        for path in ("lends", "plain", "tree/lends", "tree/inner/lends"):
            (root / path).write_text("x\n")
        for path in ("lends", "tree/lends", "tree/inner/lends", "tree/inner"):
            os.chmod(root / path, bits | 0o755)
        before = lending(root)
        async with file_tools(root, tmp_path / "user" / str(number)) as tools:
            try:
                await tools.call(name, **arguments)
            except ToolFault:
                assert lending(root) == before
        lent += [f"{name} {arguments}: {lending(root)[one]}" for one in lending(root).keys() - before.keys()]
        assert not [
            one for one in itertools.chain(root.glob("new/**/*"), root.glob("new")) if one.stat().st_mode & 0o6000
        ]
    print(f"{len(CALLS)} calls, {len(lent)} breaks", *lent, sep="\n")
    assert lent == []
