"""The paths that programs need to read, and the paths of a workspace that tools may never write."""

import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
#: The number of processors.
_MACHINE = ("/sys/devices/system/cpu",)
#: Settings for resolving host names; often a link.
_RESOLVER = "/etc/resolv.conf"

#: What only virtual environments and toolchains (Python, conda, Node, Ruby, Perl, Rust, Go, Java, gcc, clang, R) have.
_MARKS = (
    *("pyvenv.cfg", "conda-meta", "lib/python3*", "lib/node_modules", "include/node", "lib/ruby", "lib/perl5"),
    *("lib/rustlib", "pkg/tool", "lib/modules", "lib/gcc", "lib/clang", "lib/R"),
)
#: The parts of such an installation.
_PARTS = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg", "conda-meta"),
    *("pkg", "src", "VERSION", "go.env", "conf", "jmods", "release"),
)

#: The most steps in which a path is resolved.
_STEPS = 10_000

#: The paths of a workspace that control git and ripieno; a folder ends in a slash.
CONTROLS = (
    *(".git/config", ".git/config.worktree", ".git/hooks/", ".git/info/"),
    *("ensembles/", "ripieno.toml", "ripieno.lock.toml"),
)


def readable_places(path: str, home: str, *, network: bool, writable: Sequence[str] = ()) -> tuple[str, ...]:
    """The folders and files, resolved, that system programs need: never a home or a path in one.

    ``path`` is the PATH to search. Its folders count outside of homes, those of the interpreter anywhere. Of the folder
    above them, which may be an application's with its secrets, only the parts of a known layout count. /etc may contain
    files that only root may read: see ``secrets_of``. Where a link in the ``writable`` folders leads does not count.
    """
    interpreters = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    homes = {home, os.path.expanduser("~"), "/root", "/home"}
    found = [one for one in _SYSTEM + _MACHINE if os.path.exists(one)]
    found += [
        one for folder in _folders(path, writable) if not _within(folder, homes) for one in (folder, *_layout(folder))
    ]
    found += [one for prefix in interpreters if prefix not in homes for one in _parts(prefix) if not _holds(one, homes)]
    if network and os.path.exists(_RESOLVER):
        found.append(_RESOLVER)
    return tuple(outermost(os.path.realpath(one) for one in found if not is_led(one, writable)))


def secrets_of(folder: str) -> tuple[list[str], list[str]]:
    """The outermost places beneath a folder that are readable by all users, and those that are not.

    For a program that runs as root, to which file permissions do not apply.
    """
    common: list[str] = []
    secret: list[str] = []
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        readable = mode & stat.S_IROTH and (mode & stat.S_IXOTH or not stat.S_ISDIR(mode))
        if stat.S_ISLNK(mode):
            continue
        if not readable:
            secret.append(entry.path)
        elif not stat.S_ISDIR(mode):
            common.append(entry.path)
        else:
            below = secrets_of(entry.path)
            secret += below[1]
            common += below[0] if below[1] else [entry.path]
    return common, secret


def outermost(places: Iterable[str]) -> list[str]:
    """The places that are not beneath another one, without duplicates."""
    kept: list[str] = []
    for place in sorted(set(places)):
        if not kept or not _beneath(place, kept[-1]):
            kept.append(place)
    return kept


def without_inner(paths: Iterable[str]) -> list[str]:
    """The paths that are not in another listed folder; a folder ends in a slash."""
    paths = list(paths)
    folders = [one for one in paths if one.endswith("/")]
    return [path for path in paths if not any(path != one and path.startswith(one) for one in folders)]


def is_beneath(path: str, folders: Sequence[str]) -> bool:
    """Whether a path equals or is beneath one of these folders."""
    return any(_beneath(path, one) for one in folders)


def is_led(path: str | os.PathLike[str], folders: Sequence[str]) -> bool:
    """Whether a link in one of these folders decides where a path leads. ``folders`` are true paths."""
    return any(link is None or is_beneath(link, folders) for link in _links(path))


def system_links() -> Iterator[tuple[str, str]]:
    """Links at the top such as /bin on most systems; their targets are bound in place."""
    for name in sorted(os.listdir("/")):
        path = f"/{name}"
        if name.startswith(("bin", "sbin", "lib")) and os.path.islink(path):
            yield path, os.readlink(path)


def way_inside(path: str, places: Sequence[str]) -> str | None:
    """The path to use for a file where only ``places`` and ``system_links`` exist; None if no path leads to it there.

    Its folder is resolved: what a link in PATH leads to may be there without the link.
    """
    folder, name = os.path.split(path)
    way = os.path.join(os.path.realpath(folder), name)
    there = (*places, *(link for link, _ in system_links()))
    steps = (*_links(way), os.path.realpath(way))
    return way if all(step is not None and is_beneath(step, there) for step in steps) else None


def _links(path: str | os.PathLike[str]) -> Iterator[str | None]:
    """The links that are followed on a path; None at the end, if they are too many."""
    current, parts = "/", os.path.join(os.getcwd(), path).split("/")[::-1]
    for _ in range(_STEPS):
        if not parts:
            return
        name = parts.pop()
        if name == "..":
            current = os.path.dirname(current)
        elif name not in ("", "."):
            place = os.path.join(current, name)
            if not os.path.islink(place):
                current = place
                continue
            yield place
            target = os.readlink(place)
            current = "/" if target.startswith("/") else current
            parts += target.split("/")[::-1]
    yield None


def _folders(path: str, writable: Sequence[str]) -> Iterator[str]:
    """The folders of a PATH, resolved."""
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and os.path.isdir(folder) and not is_led(folder, writable):
            yield os.path.realpath(folder)


def _layout(folder: str) -> Iterator[str]:
    """The parts of a virtual environment or toolchain beside its ``bin``; nothing for any other folder."""
    above, name = os.path.split(folder)
    known = name in ("bin", "sbin") and any(next(glob.iglob(f"{glob.escape(above)}/{one}"), None) for one in _MARKS)
    return _parts(above) if known else iter(())


def _parts(prefix: str) -> Iterator[str]:
    """The folders and files of an installation that its programs read."""
    return (place for name in _PARTS if os.path.exists(place := os.path.join(prefix, name)))


def _within(place: str, homes: Iterable[str]) -> bool:
    return _holds(place, homes) or any(_beneath(os.path.realpath(place), os.path.realpath(home)) for home in homes)


def _holds(place: str, homes: Iterable[str]) -> bool:
    """Whether a home equals or is beneath a place."""
    return any(_beneath(os.path.realpath(home), os.path.realpath(place)) for home in homes)


def _beneath(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")
