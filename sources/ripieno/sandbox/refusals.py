"""Says what the sandbox refused a program, which reads like an error of the disk, and what it let it remove."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ripieno.sandbox.paths import CONTROLS, is_beneath

#: What the system says of a place that is mounted read-only, and of one that cannot be moved away.
_SAID = (os.strerror(errno.EROFS), os.strerror(errno.EBUSY))
#: What shells end with when a program may not be executed, and what they say then.
_NOT_EXECUTED, _DENIED = 126, os.strerror(errno.EACCES)
_NAMES = frozenset(name.split("/")[0] for name in CONTROLS)
_GIT = ".git"
#: Without these, git does not see a repository.
_PARTS = ("HEAD", "objects", "refs")
#: How programs say that something may not be read.
_UNREAD = re.compile("[Pp]ermission denied|PermissionError|EACCES")
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)"|`([^`]+)`|\u2018([^\u2019]+)\u2019""")
_AROUND = "'\"`\u2018\u2019:,;()[]{}<>"
#: Lines that are looked at, characters of each, paths that are looked up, and paths that are told.
_LINES, _LENGTH, _LOOKED_UP, _TOLD = 16, 1000, 64, 3
#: Where a program has its own, and not what we have.
_OWN = ("/proc", "/dev", "/sys")


def explain(exit_code: int, written: str) -> str:
    """A sentence in brackets about what was refused, by how a program ended; empty where it is not about that."""
    if exit_code == _NOT_EXECUTED and _DENIED in written:
        return (
            "[If the sandbox keeps that program from being read, `[sandbox] readable` in the configuration grants it.]"
        )
    lines = [line for line in written.splitlines() if any(said in line for said in _SAID)]
    refused = _NAMES.intersection(word for line in lines for word in re.split(r"[/\s'\"`:]+", line))
    if not refused:
        return ""
    kept = [*sorted(refused - {_GIT}), *(["the settings and hooks in .git"] if _GIT in refused else [])]
    history = " All else in .git is not kept, the history neither." if _GIT in refused else ""
    one = len(kept) == 1 and not history
    how = "as it is, since it is" if one else "as they are, since they are"
    return (
        f"[The sandbox keeps {', '.join(kept)} {how} obeyed outside of it.{history} "
        "Use another folder, or ask a person.]"
    )


def explain_unread(written: str, workspace: str, directory: str, granted: Sequence[str]) -> str:
    """A sentence in brackets about paths that a program could not read since nothing grants them; else nothing.

    Only what was written is gone by, and only what exists, and may be read by ourselves, is told. Relative paths begin
    at ``directory`` or at the workspace. For tier 1, which does not hide what exists.
    """
    found: dict[str, None] = {}
    candidates = dict.fromkeys(
        os.path.normpath(os.path.join(start, one)) for one in _paths(written) for start in (directory, workspace)
    )
    for path, _ in zip(candidates, range(_LOOKED_UP), strict=False):
        real = os.path.realpath(path)
        if not is_beneath(real, (*granted, *_OWN)) and os.access(real, os.R_OK):
            found[_told(path, real, workspace, granted)] = None
    if not found:
        return ""
    told = ", ".join([*found][:_TOLD]) + (", and more" if len(found) > _TOLD else "")
    return (
        f"[The sandbox keeps programs from reading outside of what is granted: {told}. Leave it out, or ask a person: "
        "`[sandbox] readable` in the configuration grants it.]"
    )


def parts_of(controls: Iterable[str]) -> frozenset[str]:
    """Of the repositories with these settings, what there is of that without which none is one."""
    places = [path.removesuffix("/config") for path in controls if path.endswith("/config")]
    return frozenset(part for place in places for name in _PARTS if os.path.lexists(part := f"{place}/{name}"))


def explain_lost(parts: Iterable[str], workspace: str) -> Iterator[str]:
    """A sentence in brackets for each repository that has lost these parts."""
    lost: dict[str, list[str]] = {}
    for part in sorted(parts):
        lost.setdefault(os.path.dirname(part), []).append(os.path.basename(part))
    for place, names in lost.items():
        shown = os.path.relpath(place, workspace) if is_beneath(place, [workspace]) else place
        removed = f"parts of the repository {shown!r} were removed: {', '.join(names)}"
        yield f"[While this program ran, {removed}. Tell the user.]"


def _paths(written: str) -> Iterator[str]:
    """What may be paths in the lines that say that something may not be read."""
    end = -1
    lines = 0
    for match in _UNREAD.finditer(written):
        if match.start() < end:
            continue
        begin = max(written.rfind("\n", 0, match.start()) + 1, match.start() - _LENGTH)
        end = written.find("\n", match.end())
        end = min(len(written) if end < 0 else end, match.end() + _LENGTH)
        line = written[begin:end]
        words = ["".join(groups) for groups in _QUOTED.findall(line)]
        words += [*line.split(": "), *(word.strip(_AROUND) for word in line.split())]
        yield from (word for word in words if "\0" not in word and any(map(str.isalnum, word)))
        lines += 1
        if lines == _LINES:
            return


def _told(path: str, real: str, workspace: str, granted: Sequence[str]) -> str:
    """A path in words: by the link in the workspace that leads to it, if one does."""
    if is_beneath(path, [workspace]):
        way = workspace
        for name in os.path.relpath(path, workspace).split("/"):
            way = f"{way}/{name}"
            if os.path.islink(way) and not is_beneath(target := os.path.realpath(way), granted):
                return f"{os.path.relpath(way, workspace)!r}, a link to {target!r}"
    return repr(real)
