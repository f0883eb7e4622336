"""Tier 2: the system's bubblewrap, asked for a file system that has nothing but what is granted.

What it must be told stands in its arguments, which everybody on the machine can read: no variable of the environment
is among them. It starts in the clean environment of the program that it runs, and hands it on.
"""

import os
from collections.abc import Iterator, Sequence

from ripieno.sandbox.paths import without_inner

#: Where the child side leaves the filter of system calls: high enough to be nobody's.
FILTER_DESCRIPTOR = 60

_ALWAYS = (
    *("--unshare-user", "--disable-userns", "--unshare-all"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--seccomp", str(FILTER_DESCRIPTOR)),
)


def arrange(
    program: str,
    *,
    writable: Sequence[str],
    readable: Sequence[str],
    protected: Sequence[str],
    hidden: Sequence[str],
    network: bool,
    own_processes: bool,
) -> list[str]:
    """The arguments before the program's own. Paths are resolved. ``own_processes``: a /proc can be mounted here.

    A protected path that is not there is covered as well, at its first part that is missing; what it is covered with
    stays behind as an empty file or folder.
    """
    argv = [program, *_ALWAYS]
    if network:
        argv.append("--share-net")
    # Read-only: root could write settings of the kernel there that belong to the whole machine (measured).
    argv += ["--proc" if own_processes else "--tmpfs", "/proc", "--remount-ro", "/proc"]
    argv += ["--dev", "/dev", "--tmpfs", "/tmp"]
    for link, target in system_links():
        argv += ["--symlink", target, link]
    # Parents come first, so that nothing covers what was laid beneath it.
    binds = dict.fromkeys(readable, "--ro-bind") | dict.fromkeys(writable, "--bind")
    for path in sorted(binds, key=lambda one: one.count("/")):
        argv += [binds[path], path, path]
    for path in hidden:
        if os.path.lexists(path):
            argv += ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
    covered: set[str] = set()
    # Within a folder that is kept nothing is laid: what is above it would be writable again.
    for path in without_inner(protected):
        for place, operation in _protect(path, writable):
            if place not in covered:
                covered.add(place)
                argv += operation
    # What would be written between the mounts would seem to be there, and be gone with the program.
    return [*argv, "--remount-ro", "/"]


def system_links() -> Iterator[tuple[str, str]]:
    """Links at the top, such as /bin on most systems: what is behind them is bound where it is."""
    for name in sorted(os.listdir("/")):
        path = f"/{name}"
        if name.startswith(("bin", "sbin", "lib")) and os.path.islink(path):
            yield path, os.readlink(path)


def _protect(path: str, writable: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each place that is covered for it, from the outermost on, and how. A folder has a slash at its end."""
    roots = [one for one in writable if path.startswith(f"{one.rstrip('/')}/")]
    if not roots:
        return
    place = max(roots, key=len).rstrip("/")
    parts = path.removeprefix(place).strip("/").split("/")
    for number, part in enumerate(parts, 1):
        place = f"{place}/{part}"
        last = number == len(parts)
        if os.path.islink(place):
            # Paths come resolved: this is a program's, in place of what was not there.
            return
        if os.path.isfile(place) and not last:
            # It says where the folder is.
            yield place, ("--ro-bind", place, place)
            return
        if os.path.lexists(place):
            # What is mounted somewhere cannot be renamed: else another could be put into its place.
            yield place, ("--ro-bind" if last else "--bind", place, place)
        elif last and not path.endswith("/"):
            yield place, ("--ro-bind", "/dev/null", place)
        else:
            yield place, ("--tmpfs", place, "--remount-ro", place)
            return
