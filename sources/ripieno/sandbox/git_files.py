"""The files that control git in the repositories of a folder, found before any program could create one.

A repository that a program makes belongs to the program and is not protected. The search is limited in depth and number
of folders; a submodule is found at any depth, through its repository.
"""

import os
import re
from collections.abc import Iterator

from ripieno.lazy.expressions import expression

#: Levels beneath the first folder, folders searched, and repositories protected.
_DEPTH, _FOLDERS, _REPOSITORIES = 2, 1000, 64
_PASS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LOOK = 64 * 1024
#: Always protected, in tier 2 even when missing; a folder ends in a slash.
_CONTROLS = ("config", "hooks/", "info/")
#: Protected if they exist: only ``config`` leads to the first, and an empty second one makes every git fail.
_PRESENT = ("config.worktree", "commondir")
_WORKTREE = expression(r'^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$', re.MULTILINE)


def controls_beneath(folder: str) -> list[str]:
    """The files that decide which programs git runs, in the repositories at, beneath and in a folder.

    Paths are absolute, and may contain links. Missing and unreadable files are not errors.
    """
    found: dict[str, None] = {}
    repositories = 0
    for one in _folders(folder):
        if os.path.lexists(f"{one}/.git"):
            repositories += 1
            found |= dict.fromkeys(_of_pointer(f"{one}/.git"))
        if repositories >= _REPOSITORIES:
            break
    if _is_repository(folder):
        found |= dict.fromkeys(_of_directory(folder))
    return list(found)


def withdraw(path: str) -> bool:
    """Removes a file, unless a link is on the way; whether one was removed."""
    if not os.path.lexists(path):
        return False
    *folders, name = path.strip("/").split("/")
    descriptor = os.open("/", _PASS)
    try:
        for one in folders:
            inner = os.open(one, _PASS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.unlink(name, dir_fd=descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _folders(folder: str) -> Iterator[str]:
    """The folder and those beneath it, breadth first, without hidden ones, installed packages and links."""
    level, left = [folder], _FOLDERS
    for depth in range(_DEPTH + 1):
        below: list[str] = []
        for one in level:
            yield one
            if depth < _DEPTH and left > 0:
                left -= 1
                below += _beneath(one)
        level = below


def _beneath(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            named = [one for one in entries if not one.name.startswith(".") and one.name != "node_modules"]
            return sorted(one.path for one in named if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _of_pointer(pointer: str) -> Iterator[str]:
    """The files of a ``.git``, which may be a file with the repository's path."""
    place = os.path.realpath(pointer)
    if os.path.isfile(place):
        yield place
        named = _text(place).removeprefix("gitdir:").strip()
        place = os.path.realpath(os.path.join(os.path.dirname(pointer), named))
    if os.path.isdir(place):
        yield from _of_directory(place)


def _of_directory(place: str) -> Iterator[str]:
    """The files of a repository, of its common one, of its submodules and of its other working trees."""
    common = os.path.realpath(os.path.join(place, _text(f"{place}/commondir").strip() or "."))
    for one in dict.fromkeys((place, common)):
        yield from _present(one)
    yield from (f"{common}/{name}" for name in _CONTROLS)
    for one in _beneath(f"{common}/worktrees"):
        yield from _present(one)
    for one in _modules(f"{common}/modules"):
        yield from _present(one)
        yield from (f"{one}/{name}" for name in _CONTROLS)
        if match := _WORKTREE.search(_text(f"{one}/config")):
            yield os.path.join(one, match[1], ".git")


def _modules(folder: str) -> Iterator[str]:
    """The repositories of submodules, whose names may have slashes, recursively."""
    waiting, left = _beneath(folder), _REPOSITORIES
    while waiting and left > 0:
        left -= 1
        one = waiting.pop(0)
        if _is_repository(one):
            yield one
            waiting += _beneath(f"{one}/modules")
        else:
            waiting += _beneath(one)


def _is_repository(place: str) -> bool:
    return os.path.isfile(f"{place}/HEAD") and os.path.isdir(f"{place}/objects")


def _present(place: str) -> Iterator[str]:
    return (f"{place}/{name}" for name in _PRESENT if os.path.lexists(f"{place}/{name}"))


def _text(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LOOK)
    except OSError:
        return ""
