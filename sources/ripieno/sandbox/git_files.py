"""What git obeys in the repositories of a folder. Looked for before a program could have made one of them.

A repository that a program makes is the program's, and nothing in it is kept. Folders are looked through to a small
depth, and few of them; a submodule is found at any depth, through the repository that has it.
"""

import os
import re
from collections.abc import Iterator

#: Folders beneath the first one, how many are looked into, and how many repositories are kept.
_DEPTH, _FOLDERS, _REPOSITORIES = 2, 1000, 64
_PASS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LOOK = 64 * 1024
#: Always kept, so that tier 2 keeps them also where they are not there; a folder has a slash at its end.
_CONTROLS = ("config", "hooks/", "info/")
#: Kept where they are: nothing leads to the one unless ``config`` does; a stand-in for the other ends every git.
_PRESENT = ("config.worktree", "commondir")
_WORKTREE = re.compile(r'^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$', re.MULTILINE)


def controls_beneath(folder: str) -> list[str]:
    """What decides which programs git runs, in the repositories at a folder, beneath it, and in itself if it is one.

    Paths are absolute, and may have links in them. Nothing that is missing or cannot be read is an error.
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
    """Removes a file, unless a link leads to it; whether one was there."""
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
    """The folder and those beneath it, the nearest first; hidden ones, installed packages and links are left out."""
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
    """Of a ``.git``, which may be a file that says where the repository is."""
    place = os.path.realpath(pointer)
    if os.path.isfile(place):
        yield place
        named = _text(place).removeprefix("gitdir:").strip()
        place = os.path.realpath(os.path.join(os.path.dirname(pointer), named))
    if os.path.isdir(place):
        yield from _of_directory(place)


def _of_directory(place: str) -> Iterator[str]:
    """Of a repository, of the one that it belongs to, of its submodules and of its other working trees."""
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
    """The repositories of submodules, whose names may have slashes, and those of theirs."""
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
