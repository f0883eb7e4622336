"""Writing: whole or not at all, never through a link, never what controls us, nothing lost."""

import os
import pathlib
import stat
import sys
import threading

import pytest

from ripieno.exceptions import PermissionFault, ResourceFault, ToolFault
from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner, clean_environment, collect
from ripieno.toolset.workspace.workspace import Workspace
from tests.counts import count
from tests.toolset.furnished_workspace import snapshot

CONTROL_FILES = (
    *(".git/config", ".GIT/config", ".git/hooks/pre-commit", ".git/info/attributes", ".git/modules/one/config"),
    *(".git", "sub/.git/config", "sub/deeper/.Git/hooks/post-checkout", ".g\u200cit/config", "ripieno.toml"),
    *("Ripieno.TOML", "sub/ripieno.toml", "ensembles/own.toml", "Ensembles/tools.py", "ensembles"),
    *("project/ensembles/deep/own.toml", "pins.lock.toml", "sub/Pins.Lock.Toml", "to-git/config"),
    *("sub/../.git/config", "new/made/.git/config", "new/made/ripieno.toml"),
)


@pytest.mark.parametrize("path", CONTROL_FILES)
@pytest.mark.parametrize("existing", [False, True])
def test_control_files_are_not_written(files: Workspace, root: pathlib.Path, path: str, existing: bool) -> None:
    if existing:
        (root / ".git").mkdir()
        target = root / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("as it was")
    before = snapshot(root)
    for append in (False, True):
        with pytest.raises(PermissionFault, match="controls what programs and tools do") as caught:
            files.write_file(path, b"[core]\nfsmonitor = evil\n", append=append)
        assert caught.value.code == "control_file"
    assert snapshot(root) == before


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x.yml", "git/config", "sub/ensembles/x.py", "poetry.lock", "a.toml"]
)
def test_files_like_them_are_written(files: Workspace, root: pathlib.Path, path: str) -> None:
    files.write_file(path, b"text")
    assert (root / path).read_bytes() == b"text"


def test_directories_are_made_only_when_asked_for(files: Workspace, root: pathlib.Path) -> None:
    for path in ("x/y", "x/../y"):
        with pytest.raises(ResourceFault, match="the workspace has no 'x'"):
            files.write_file(path, b"", create_directories=False)
    with pytest.raises(ResourceFault, match="the workspace has no 'x'"):
        files.write_file("x/../y", b"")
    assert not (root / "x").exists()


def test_a_write_that_is_refused_makes_no_directory(files: Workspace, root: pathlib.Path) -> None:
    before = snapshot(root)
    for path in ("x/y/" + "z" * 256, "x/" + "y" * 256 + "/z", "x/.git", "x/y/pins.lock.toml"):
        with pytest.raises(ToolFault):
            files.write_file(path, b"")
    assert snapshot(root) == before


def test_permissions_are_kept_and_new_files_follow_the_mask(files: Workspace, root: pathlib.Path) -> None:
    for mode in (0o600, 0o644, 0o755, 0o4755, 0o2711):
        (root / "readme").chmod(mode)
        files.write_file("readme", b"new")
        assert stat.S_IMODE((root / "readme").stat().st_mode) == mode & 0o777
    former = os.umask(0o027)
    try:
        files.write_file("fresh/file", b"")
    finally:
        os.umask(former)
    assert stat.S_IMODE((root / "fresh/file").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "fresh").stat().st_mode) == 0o750


async def run_python(script: str, *arguments: str | os.PathLike[str]) -> str:
    """What a script prints that runs in a Python of its own, with our modules."""
    argv = [sys.executable, "-c", script, *map(os.fspath, arguments)]
    environment = clean_environment({"PYTHONPATH": os.pathsep.join(sys.path)})
    async with await LocalSpawner().start(argv, environment, "/", ProcessLimits()) as process:
        completed = await collect(process)
    assert completed.exit_code == 0, completed.stderr.text
    return completed.stdout.text


FULL_DISK = """
import resource, sys
from ripieno.exceptions import ResourceFault
from ripieno.toolset.workspace.workspace import Workspace
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with Workspace(sys.argv[1]) as files:
    try:
        files.write_file("readme", b"x" * 5000)
    except ResourceFault as fault:
        print(fault)
"""


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(root: pathlib.Path) -> None:
    before = snapshot(root)
    assert await run_python(FULL_DISK, root) == "'readme' cannot be used: File too large.\n"
    assert snapshot(root) == before


AS_NOBODY = """
import ctypes, os, sys  # as somebody else, the library may be out of reach
from ripieno.exceptions import PermissionFault
from ripieno.toolset.workspace.workspace import Workspace
with Workspace(sys.argv[1]) as files:
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    for act in (
        lambda: files.open_file("unreadable"),
        lambda: files.open_file("locked/file"),
        lambda: files.write_file("unwritable", b""),
        lambda: files.write_file("unwritable", b"", append=True),
        lambda: files.write_file("fixed/new", b""),
        lambda: files.write_file("fixed/new/deeper", b""),
    ):
        try:
            act()
        except PermissionFault as fault:
            print(fault.code)
    print(files.open_file("passed/file").read().decode())
"""


async def test_permissions_of_the_system_are_respected(tmp_path: pathlib.Path) -> None:
    for name, mode in (("locked", 0o600), ("fixed", 0o555), ("passed", 0o711)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("reached")
        (tmp_path / name).chmod(mode)
    for name, mode in (("unreadable", 0o000), ("unwritable", 0o444)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    os.chmod(tmp_path, 0o777)
    assert (await run_python(AS_NOBODY, tmp_path)).splitlines() == ["not_permitted"] * 6 + ["reached"]


def test_appenders_lose_nothing_of_each_other(root: pathlib.Path) -> None:
    lines = count(10_000, 100) // 4

    def append(letter: str) -> None:
        with Workspace(root) as files:
            for number in range(lines):
                files.write_file("log", f"{letter}{number}\n".encode(), append=True)

    (root / "log").touch()
    writers = [threading.Thread(target=append, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = (root / "log").read_text().splitlines()
    for letter in "abcd":
        assert [line for line in written if line.startswith(letter)] == [f"{letter}{n}" for n in range(lines)]
    assert len(written) == 4 * lines
