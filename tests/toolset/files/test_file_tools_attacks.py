"""No path, no link and no name of a control file makes any file tool act on what it must not."""

import os
import pathlib
from typing import Any

import pytest

from ripieno.exceptions import PermissionFault, ToolFault
from tests.counts import ATTACK, count
from tests.toolset.file_tools import NAMES, Tools, file_tools
from tests.toolset.furnished_workspace import CANARY, furnish, look
from tests.toolset.workspace.test_workspace_writes import CONTROL_FILES

ALL = sorted(name for names in NAMES.values() for name in names)
READING = NAMES["file_read"] | {"list_files", "list_dir", "tree"}
MORE: dict[str, dict[str, Any]] = {
    "read_lines": {"start_line": 1, "end_line": 3},
    "write_file": {"content": "written"},
    "append_file": {"content": "written"},
    "create_file": {"content": "written"},
    "edit_file": {"old_content": "a", "new_content": "written", "occurrence": "all"},
    "rename_file": {"new_name": "renamed"},
    "chmod": {"mode": "600"},
    "list_files": {"recursive": True},
    "delete_directory": {"recursive": True},
    "tree": {"max_depth": 64},
}
PAIRS = {"move_file", "copy_file", "move", "copy"}


def calls(name: str, path: str, fresh: str) -> list[dict[str, Any]]:
    """The calls of a tool that a path can stand in."""
    if name == "patch_file":
        one = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-canary\n+written\n"
        new = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+written\n"
        gone = f"diff --git a/readme b/{path}\nrename from readme\nrename to {path}\n"
        return [{"patch": text} for text in (one, new, gone)]
    if name in PAIRS:
        settings: dict[str, Any] = {"overwrite": True, "create_directories": True}
        settings |= {"recursive": True} if name == "copy" else {}
        source = "a" if name in ("move", "copy") else "readme"
        return [{"source": path, "destination": fresh, **settings}, {"source": source, "destination": path, **settings}]
    return [{"path": path, **MORE.get(name, {})}]


def holds_canary(root: pathlib.Path) -> bool:
    """Whether anything beneath a folder, without following links, has got the secret's content."""
    return any(CANARY in one.read_bytes() for one in root.rglob("*") if one.is_file() and not one.is_symlink())


async def attempt(tools: Tools, name: str, path: str, fresh: str) -> None:
    for arguments in calls(name, path, fresh):
        try:
            said = await tools.said(name, **arguments)
        except ToolFault as fault:
            said = fault.message
        assert CANARY.decode() not in said


def shape_links(root: pathlib.Path, outside: pathlib.Path) -> list[str]:
    """Forty links: to a file and a folder outside, from everywhere, by every way that a link can be written."""
    shapes: list[str] = []
    relative = os.path.relpath(outside, root)
    targets = [
        outside, f"{outside}/", f"{outside}/.", relative, f"./{relative}", f"a/../{relative}", f"{root}/{relative}",
        f"/proc/self/root{outside}", f"/proc/self/cwd/{relative}", f"/proc/{os.getpid()}/root{outside}",
        f"//{outside}", f"/.//{outside}", f"{outside}/a/..", f"here/{relative}",
    ]  # fmt: skip
    for number, target in enumerate(targets):
        for kind, tail in (("file", "/secret"), ("folder", "")):
            link = root / f"{kind}{number}"
            link.symlink_to(f"{target}{tail}")
            shapes.append(link.name if kind == "file" else f"{link.name}/secret")
            if kind == "folder":
                shapes.append(link.name)
    (root / "second").symlink_to("file0")
    (root / "third").symlink_to("second")
    (root / "a" / "inner").symlink_to("../folder3")
    shapes += ["second", "third", "a/inner/secret", "folder/inner/a/b", "folder3/../outside/secret"]
    return shapes[:40]


async def test_no_shape_of_a_link_is_a_door(outside: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = look(outside)
    async with file_tools(tmp_path, tmp_path.with_name(f"{tmp_path.name}-user")) as connected:
        for place, name in enumerate(ALL):
            root = tmp_path / name
            root.mkdir()
            furnish(root, outside)
            shapes = shape_links(root, outside)
            assert len(shapes) == 40
            paths = [f"{outside}/secret", f"../{outside.name}/secret", "escape-up/a/b", *shapes]
            for index, shape in enumerate(paths if ATTACK else paths[place % 4 :: 4]):
                await attempt(connected.elsewhere(root), name, shape, f"fresh{index}")
                assert look(outside) == before, (name, shape)
                if not (root / "readme").exists():
                    (root / "readme").write_text("inside: readme")
            assert not holds_canary(root), name


#: Sixty names of what controls us: those of the writes, in more spellings and places.
CONTROLS = [
    *CONTROL_FILES,
    *(f"{folder}{name}" for folder in ("", "sub/", "new/deep/") for name in (
        ".git/objects/info/alternates", ".git/HEAD", ".gIt/hooks/post-commit", "ripieno.toml", "RIPIENO.toml",
        "ripieno\u200b.toml", "\uff52ipieno.toml", "a.lock.toml", "ripieno.lock.toml", ".git/commondir", ".git\u200d/x",
        ".git/worktrees/x/gitdir",
    )),
    "project/ENSEMBLES/x.toml", "ensembles/\u200bx.toml",
]  # fmt: skip


@pytest.mark.parametrize("existing", [False, True])
async def test_no_tool_touches_what_controls_us(root: pathlib.Path, tmp_path: pathlib.Path, existing: bool) -> None:
    """Not as what is changed, nor as what becomes it; nor is a copy made of it; existing or not."""
    assert len(CONTROLS) >= 60
    if existing:
        make_controls(root)
    before = look(root)
    async with file_tools(root, tmp_path / "user") as tools:
        for place, name in enumerate(name for name in ALL if name not in READING):
            for index, path in enumerate(CONTROLS if ATTACK else CONTROLS[place % 4 :: 4]):
                for arguments in calls(name, path, f"fresh{index}"):
                    with pytest.raises(ToolFault) as caught:
                        await tools.call(name, **arguments)
                    # Elsewhere, what is missing on the way is said first.
                    if name in ("write_file", "append_file", "create_file", "create_directory"):
                        assert caught.value.code == "control_file", (path, caught.value)
            assert look(root) == before, name


def make_controls(root: pathlib.Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / "sub/.git").mkdir()
    (root / "ensembles").mkdir()
    for name in (".git/config", ".git/HEAD", "sub/.git/HEAD", "ripieno.toml", "sub/ripieno.toml", "ensembles/own.toml",
                 "pins.lock.toml", "sub/a.lock.toml"):  # fmt: skip
        (root / name).write_text("as it was")


@pytest.mark.parametrize("held", [".git/config", "ripieno.toml", "deep/er/x.lock.toml", "deep/.GIT/HEAD", "deep/.git"])
async def test_a_tree_that_holds_what_controls_us_stays(root: pathlib.Path, tmp_path: pathlib.Path, held: str) -> None:
    (root / "tree" / held).parent.mkdir(parents=True)
    (root / "tree" / held).write_text("as it was")
    before = look(root)
    async with file_tools(root, tmp_path / "user") as tools:
        for name, arguments in (
            ("move", {"source": "tree", "destination": "moved"}),
            ("copy", {"source": "tree", "destination": "copied", "recursive": True}),
            ("delete_directory", {"path": "tree", "recursive": True}),
        ):
            with pytest.raises(PermissionFault, match="controls what programs and tools do") as caught:
                await tools.call(name, **arguments)
            assert caught.value.code == "control_file"
    assert look(root) == before


async def test_a_directory_does_not_become_ensembles(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    async with file_tools(root, tmp_path / "user") as tools:
        for destination in ("ensembles", "Ensembles", "project/ensembles", ".git", "sub/.git", "sub/.GIT"):
            for name in ("move", "copy"):
                more = {"recursive": True} if name == "copy" else {}
                with pytest.raises(PermissionFault, match="controls"):
                    await tools.call(name, source="a", destination=destination, **more)
        await tools.call("move", source="a", destination="sub/ensembles")


async def test_a_huge_directory_is_answered(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "huge"
    root.mkdir()
    total = count(400_000, 36)
    (root / "many").mkdir()
    folder = os.open(root / "many", os.O_RDONLY)
    for number in range(total):
        os.close(os.open(f"{number:07}", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    async with file_tools(root, tmp_path / "user") as tools:
        for name, arguments in (("list_files", {"recursive": True}), ("tree", {}), ("list_dir", {"path": "many"})):
            said = await tools.said(name, **arguments)
            assert "0000001 (0 bytes)" in said
            assert "more entries left out" in said or total <= 10_000
        await tools.call("move", source="many", destination="moved")
        with pytest.raises(ToolFault, match="more than 10000 entries"):
            await tools.call("copy", source="moved", destination="copied", recursive=True)
        said = await tools.said("delete_directory", path="moved", recursive=True)
        assert said.startswith(f"Deleted moved with {total} entries in it. It cannot be undone")
    assert list(root.iterdir()) == []
