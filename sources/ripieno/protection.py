"""What nobody but its owner changes: what a program was configured with, and what is kept of trust and pins."""

import os
from collections.abc import Sequence

from ripieno.gathering import Gathered
from ripieno.sandbox import Sandbox


def sandbox_of(gathered: Gathered) -> Sandbox:
    """The sandbox of what was gathered; nothing is tried yet."""
    return Sandbox(gathered.workspace, gathered.configuration.sandbox, protected=protected_by(gathered))


def protected_by(gathered: Gathered) -> tuple[str, ...]:
    """What was read for it, and what is kept of trust and pins: neither programs nor file tools write there.

    Where a workspace is so wide that it has these in it. Folders have a slash at their end.
    """
    folders = [f"{path}/" for layer in gathered.layers for path in (*layer.folders, *layer.paths)]
    folders += [] if gathered.state is None else [f"{gathered.state}/"]
    return (*gathered.files, *folders)


def beneath(workspace: os.PathLike[str], paths: Sequence[str]) -> tuple[str, ...]:
    """Those of the paths that lie beneath the workspace, as they are named and where they lead."""
    base = os.path.realpath(workspace)
    known = [way(path) for path in paths for way in (os.path.abspath, os.path.realpath)]
    known += [os.path.join(base, os.path.relpath(path, workspace)) for path in paths]
    return tuple(dict.fromkeys(path for path in known if path.startswith(f"{base}/")))
