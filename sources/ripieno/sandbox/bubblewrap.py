"""Tier 2: arguments for the system's bubblewrap, for a file system with only the granted paths.

Arguments are visible to every user of the machine, so no environment variable is among them. Bubblewrap starts in the
clean environment of the program and passes it on.
"""

import os
from collections.abc import Iterator, Sequence

from ripieno.sandbox.confinement.settings import FILTER_DESCRIPTOR, STATUS_DESCRIPTOR
from ripieno.sandbox.paths import system_links, without_inner
from ripieno.sandbox.tiers import Confinement

_ALWAYS = (
    *("--unshare-user", "--disable-userns", "--unshare-all"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--seccomp", str(FILTER_DESCRIPTOR), "--json-status-fd", str(STATUS_DESCRIPTOR)),
)


def arrange(confinement: Confinement, directory: str) -> list[str]:
    """Bubblewrap and its arguments, before the program's own, which starts in ``directory``.

    A missing protected path is covered too, at its first missing part; the cover leaves an empty file or folder behind.
    """
    argv = [confinement.program, *_ALWAYS]
    if confinement.network:
        argv.append("--share-net")
    # Read-only: root could write settings of the kernel there that belong to the whole machine (measured).
    argv += ["--proc" if confinement.own_processes else "--tmpfs", "/proc", "--remount-ro", "/proc"]
    size = [] if confinement.files_in_memory is None else ["--size", str(confinement.files_in_memory)]
    argv += ["--dev", "/dev", *size, "--tmpfs", "/dev/shm", *size, "--tmpfs", "/tmp"]
    for link, target in system_links():
        argv += ["--symlink", target, link]
    # Parents come first, so that no mount covers an inner one.
    binds = dict.fromkeys(confinement.readable, "--ro-bind") | dict.fromkeys(confinement.writable, "--bind")
    for path in sorted(binds, key=lambda one: one.count("/")):
        argv += [binds[path], path, path]
    for path in confinement.hidden:
        if os.path.lexists(path):
            argv += ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
    covered: set[str] = set()
    # No mount inside a protected folder: its parents would be writable again.
    for path in without_inner(confinement.protected):
        for place, operation in _protect(path, confinement.writable):
            if place not in covered:
                covered.add(place)
                argv += operation
    # A write between the mounts would seem to succeed, and be lost with the program.
    return [*argv, "--remount-ro", "/", "--chdir", directory, "--"]


def _protect(path: str, writable: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each place to cover for a path, outermost first, with its operation. A folder ends in a slash."""
    roots = [one for one in writable if path.startswith(f"{one.rstrip('/')}/")]
    if not roots:
        return
    place = max(roots, key=len).rstrip("/")
    parts = path.removeprefix(place).strip("/").split("/")
    for number, part in enumerate(parts, 1):
        place = f"{place}/{part}"
        last = number == len(parts)
        if os.path.islink(place):
            # Paths are resolved: a program made this link in place of a missing file.
            return
        if os.path.isfile(place) and not last:
            # A file that names the folder.
            yield place, ("--ro-bind", place, place)
            return
        if os.path.lexists(place):
            # A mount point cannot be renamed, and so not replaced.
            yield place, ("--ro-bind" if last else "--bind", place, place)
        elif last and not path.endswith("/"):
            yield place, ("--ro-bind", "/dev/null", place)
        else:
            yield place, ("--tmpfs", place, "--remount-ro", place)
            return
