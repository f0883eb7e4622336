"""Explanations of what the sandbox refused to a program, and of protected parts that were removed."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from ripieno.lazy.expressions import expression
from ripieno.sandbox.paths import CONTROLS, is_beneath

#: The system's messages for a read-only mount, and for a mount point that cannot be moved.
_REFUSALS = (os.strerror(errno.EROFS), os.strerror(errno.EBUSY))
#: The exit code and the message of shells for a program that may not be executed.
_NOT_EXECUTED, _DENIED = 126, os.strerror(errno.EACCES)
_NAMES = frozenset(name.split("/")[0] for name in CONTROLS)
_GIT = ".git"
#: Without these, git does not see a repository.
_PARTS = ("HEAD", "objects", "refs")
#: Programs' messages about a refused read.
_UNREAD = expression("[Pp]ermission denied|PermissionError|EACCES")
_QUOTED = expression(r"""'([^']+)'|"([^"]+)"|`([^`]+)`|\u2018([^\u2019]+)\u2019""")
_AROUND = "'\"`\u2018\u2019:,;()[]{}<>"
#: Lines searched, characters of each, paths looked up, and paths shown.
_LINES, _LENGTH, _LOOKED_UP, _SHOWN = 16, 1000, 64, 3
#: Paths with other content for the program than for us.
_OWN = ("/proc", "/dev", "/sys")


def explain(exit_code: int, written: str) -> str:
    """A bracketed sentence about a refused write or execution, by how a program ended; else empty."""
    if exit_code == _NOT_EXECUTED and _DENIED in written:
        return "[If the sandbox refused to read that program: `[sandbox] readable` in the configuration grants it.]"
    lines = [line for line in written.splitlines() if any(message in line for message in _REFUSALS)]
    refused = _NAMES.intersection(word for line in lines for word in re.split(r"[/\s'\"`:]+", line))
    if not refused:
        return ""
    protected = [*sorted(refused - {_GIT}), *(["the settings and hooks in .git"] if _GIT in refused else [])]
    history = " The rest of .git, including the history, is not protected." if _GIT in refused else ""
    return (
        f"[The sandbox protects {', '.join(protected)} from changes, because programs outside of it obey "
        f"{'it' if len(protected) == 1 and not history else 'them'}.{history} Use another folder, or ask the user.]"
    )


def explain_excess(kind: str, number: int, limit: int) -> str:
    """A bracketed sentence about a limit that ended a program: of ``memory``, in bytes, or ``processes``."""
    if kind == "processes":
        return f"[It was killed: it had {number:,} processes, and the sandbox allows {limit:,}.]"
    return (
        f"[It was killed: all programs together used {_mebibytes(number)} of memory, this one most of it, and the "
        f"sandbox allows {_mebibytes(limit)}.]"
    )


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"


def explain_unread(written: str, workspace: str, directory: str, granted: Sequence[str]) -> str:
    """A bracketed sentence about ungranted paths that a program failed to read; else empty.

    Uses the program's output only, and names only existing paths that we may read. Relative paths start at
    ``directory`` or at the workspace. For tier 1, which does not hide existing files.
    """
    found: dict[str, None] = {}
    candidates = dict.fromkeys(
        os.path.normpath(os.path.join(start, one)) for one in _paths(written) for start in (directory, workspace)
    )
    for path, _ in zip(candidates, range(_LOOKED_UP), strict=False):
        real = os.path.realpath(path)
        if not is_beneath(real, (*granted, *_OWN)) and os.access(real, os.R_OK):
            found[_described(path, real, workspace, granted)] = None
    if not found:
        return ""
    shown = ", ".join([*found][:_SHOWN]) + (", and more" if len(found) > _SHOWN else "")
    return (
        f"[The sandbox does not grant programs to read: {shown}. Leave it out, or ask the user: "
        "`[sandbox] readable` in the configuration grants it.]"
    )


def parts_of(controls: Iterable[str]) -> frozenset[str]:
    """The existing essential parts of the repositories with these settings."""
    places = [path.removesuffix("/config") for path in controls if path.endswith("/config")]
    return frozenset(part for place in places for name in _PARTS if os.path.lexists(part := f"{place}/{name}"))


def explain_lost(parts: Iterable[str], workspace: str) -> Iterator[str]:
    """A bracketed sentence for each repository that has lost these parts."""
    lost: dict[str, list[str]] = {}
    for part in sorted(parts):
        lost.setdefault(os.path.dirname(part), []).append(os.path.basename(part))
    for place, names in lost.items():
        shown = os.path.relpath(place, workspace) if is_beneath(place, [workspace]) else place
        removed = f"parts of the repository {shown!r} were removed: {', '.join(names)}"
        yield f"[While this program ran, {removed}. Tell the user.]"


def _paths(written: str) -> Iterator[str]:
    """Possible paths in the lines about a refused read."""
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


def _described(path: str, real: str, workspace: str, granted: Sequence[str]) -> str:
    """A path in words: by the workspace link that leads to it, if any."""
    if is_beneath(path, [workspace]):
        way = workspace
        for name in os.path.relpath(path, workspace).split("/"):
            way = f"{way}/{name}"
            if os.path.islink(way) and not is_beneath(target := os.path.realpath(way), granted):
                return f"{os.path.relpath(way, workspace)!r}, a link to {target!r}"
    return repr(real)
