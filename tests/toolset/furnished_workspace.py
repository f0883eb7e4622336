"""Shared code of the workspace tests: a furnished workspace, and looks at it afterwards."""

import contextlib
import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Iterator

from ripieno.toolset.workspace.workspace import Workspace

CANARY = b"canary: nobody beneath the workspace may see this"


def furnish(root: pathlib.Path, outside: pathlib.Path) -> None:
    """Files beneath ``root`` that hold their own path, and links of every kind."""
    for name in ("a/b", "a/c/d", "sub/e", "readme", ".hidden", "project/f"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"inside: {name}")
    (root / "project" / "ripieno.toml").write_text("")
    for name, target in (
        ("link", "readme"),
        ("chain", "link"),
        ("folder", "a"),
        ("a/up", "../sub"),
        ("a/c/far", "../../a/up/e"),
        ("absolute", root / "sub" / "e"),
        ("here", "."),
        ("top", root),
        ("to-git", ".git"),
        ("escape", outside / "secret"),
        ("escape-folder", outside),
        ("escape-up", f"../{outside.name}"),
        ("sub/escape-far", f"../../{outside.name}/secret"),
        ("escape-and-back", f"../{root.name}/readme"),
        ("magic", "/proc/self/root"),
        ("magic-cwd", "/proc/self/cwd"),
        ("self", "self"),
        ("ping", "pong"),
        ("pong", "ping"),
        ("dangling", "nowhere"),
    ):
        (root / name).symlink_to(target)


def read(files: Workspace, path: str) -> bytes:
    with files.open_file(path) as file:
        return file.read()


def snapshot(folder: pathlib.Path) -> dict[str, bytes | str]:
    """The contents of all files beneath a folder, which may be missing, and where its links point."""
    return {name: data for name, (*_, data) in look(folder).items()} if folder.exists() else {}


def look(folder: pathlib.Path) -> dict[str, tuple[int, int, bytes | str]]:
    """A folder and everything beneath it: permissions, numbers of the files, contents, and where links point."""
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        about = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.read_bytes() if stat.S_ISREG(about.st_mode) else ""
        found[str(path.relative_to(folder))] = (about.st_mode, about.st_ino, data)
    return found


#: Exchanges pairs of names, over and over, until its input ends.
_SWAPPER = """
import ctypes, os, select, sys
names = [os.fsencode(name) for name in sys.argv[1:]]
pairs = list(zip(names[::2], names[1::2]))
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
assert renameat2(-100, pairs[0][0], -100, pairs[0][1], 2) == 0, os.strerror(ctypes.get_errno())
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(100 // len(pairs)):
        for first, second in pairs:
            renameat2(-100, first, -100, second, 2)
"""


@contextlib.contextmanager
def swapping(*names: pathlib.Path) -> Iterator[None]:
    """Another process that exchanges the first name with the second, the third with the fourth, all the while."""
    argv = [sys.executable, "-c", _SWAPPER, *names]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdin is not None
        assert swapper.stdout is not None
        assert swapper.stdout.read(6) == b"ready\n"
        try:
            yield
        finally:
            swapper.stdin.close()
