"""The entry points of plugins among the installed distributions."""

import functools
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from ripieno.plugin.hooks import PROJECT

#: The ends of the names of folders with metadata. An egg has one that is named EGG-INFO.
_METADATA = ("dist-info", "egg-info")


@functools.lru_cache(maxsize=4)
def plugin_entries(path: tuple[str, ...]) -> tuple[Any, ...]:
    """The ``importlib.metadata.EntryPoint`` of each plugin of the distributions in ``sys.path``, by name.

    That module is imported only for such a plugin: importing it, and reading all metadata, takes a tenth of the time of
    ``ripieno tools``.
    """
    if _finders() == [PathFinder] and not any(map(_may_name, path)):
        return ()
    from importlib import metadata

    return tuple(sorted(metadata.entry_points(group=PROJECT), key=lambda one: (one.name, one.value)))


def _finders() -> list[Any]:
    """The finders of distributions: that of Python, and those of others, which may find them anywhere."""
    return [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]


def _may_name(folder: str) -> bool:
    """Whether a distribution in a folder of ``sys.path`` may name plugins. An archive may."""
    try:
        names = os.listdir(folder or ".")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(
        _names_plugins(os.path.join(folder, name, "entry_points.txt"))
        for name in names
        if name.lower().endswith(_METADATA)
    )


def _names_plugins(file: str) -> bool:
    """Whether a file with entry points has those of our group; False for one that does not exist."""
    try:
        with open(file, "rb") as opened:
            return any(line.strip().strip(b"[]") == PROJECT.encode() for line in opened if line.lstrip()[:1] == b"[")
    except OSError:
        return False
