"""Starts confined programs: with the tiers of this machine, and with those of a weaker kernel."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.sandbox import Confinement, DetectedTiers, ProcessLimits, Sandbox
from ripieno.sandbox.detection import try_tier
from ripieno.sandbox.processes import Completed, LocalSpawner, clean_environment, collect
from tests.skips import lacking

PYTHON = os.path.realpath(sys.executable)
#: Tier 1 in full, and as in containers: without mounts, and without any namespace.
SHELTERS = {
    "tier 1": (1, None),
    "tier 1 without mounts": (1, ("user", "pid", "ipc", "net")),
    "tier 1 without namespaces": (1, ()),
    "tier 2": (2, None),
}


def shelter(name: str, workspace: pathlib.Path, **wishes: Any) -> Sandbox:
    """The sandbox with a name. Skips the test if its tier is unavailable."""
    tier, namespaces = SHELTERS[name]
    found = try_tier(tier)
    if found.failure is not None:
        lacking(f"tier {tier} does not hold here: {found.failure}")
    if namespaces is not None:
        if not set(namespaces) <= set(found.template.namespaces):
            lacking(f"this kernel does not allow namespaces ({', '.join(namespaces)}) here: {found.lacks}")
        found = dataclasses.replace(found, template=dataclasses.replace(found.template, namespaces=namespaces))
    elsewhere = DetectedTiers(tier=3 - tier, failure="it is not looked for.")
    return Sandbox(
        workspace, SandboxDescriptor(**wishes), try_tier=lambda wanted: found if wanted == tier else elsewhere
    )


async def start(
    argv: Sequence[str],
    confinement: Confinement,
    directory: str | os.PathLike[str],
    environment: dict[str, str] | None = None,
) -> Completed:
    """Runs a program confined, to its end."""
    variables = {"PATH": clean_environment()["PATH"], **(environment or {})}
    limits = ProcessLimits(output_bytes=1024 * 1024)
    process = await LocalSpawner().start(argv, variables, directory, limits, confinement=confinement)
    return await collect(process)


async def python(
    code: str, confinement: Confinement, directory: pathlib.Path, *arguments: str, **environment: str
) -> Completed:
    """Runs Python code confined, to its end."""
    return await start([PYTHON, "-I", "-S", "-c", code, *arguments], confinement, directory, environment)
