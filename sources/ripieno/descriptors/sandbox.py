"""The ``[sandbox]`` of a configuration: how strictly programs are confined, and what they may reach."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Flag, Number, Several, Text

Level = Literal["required", "auto", "off"]
#: From the loosest to the strictest.
LEVELS: tuple[str, ...] = ("off", "auto", "required")

_PATHS = Several(item=Text(), items="paths")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDescriptor:
    """What the operator wants. ``level`` None is "required" on Linux, and "auto" elsewhere.

    ``tier`` is the one that must hold; None is the highest that does. ``provider`` names a plugin's, which is tier 3.
    Paths are absolute where they came from a file. ``network`` None leaves sockets to tools that say they need them.
    """

    level: Level | None = None
    tier: int | None = None
    provider: str | None = None
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool | None = None


SANDBOX = Table(
    title="[sandbox]",
    documentation="How the programs are confined that tools run.",
    keys=(
        Key(
            name="level",
            kind=Text(choices=get_args(Level)),
            documentation="Tools that run programs need a sandbox, take one if there is one, or do without. "
            "Left out, it is required on Linux, and auto elsewhere.",
            example="required",
        ),
        Key(
            name="tier",
            kind=Number(whole=True, minimum=1, maximum=2),
            documentation="1 is the kernel's own, 2 is bubblewrap; left out, the highest that holds.",
            example=1,
        ),
        Key(
            name="provider",
            kind=Text(pattern=r"[a-z][a-z0-9_-]*", shape="the name of a plugin's sandbox"),
            documentation="A plugin's sandbox, which runs confined programs instead.",
            example="containers",
        ),
        Key(
            name="readable",
            kind=_PATHS,
            documentation="Folders and files that programs may read beside the system's, from this file's folder.",
            default=(),
            example=["~/.cargo/registry"],
        ),
        Key(
            name="writable",
            kind=_PATHS,
            documentation="Folders that programs may write beside the workspace, from this file's folder.",
            default=(),
            example=["~/.cache/builds"],
        ),
        Key(
            name="network",
            kind=Flag(),
            documentation="Whether programs may have sockets; left out, those whose tool says that it needs them.",
            example=False,
        ),
    ),
)


def make_sandbox(table: Mapping[str, Any]) -> SandboxDescriptor:
    """The descriptor of a table that was read."""
    return SandboxDescriptor(**table)


def tighten(table: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a table that are at least as strict as those of an outer one, which says what it leaves out."""
    known = SandboxDescriptor(**outer)
    kept: dict[str, Any] = {}
    # What is left out is as strict as it gets: nobody may tell what it is on this machine.
    level = LEVELS.index(known.level or "required")
    if "level" in table and LEVELS.index(table["level"]) >= level:
        kept["level"] = table["level"]
    if table.get("tier", 0) >= (known.tier or 2):
        kept["tier"] = table["tier"]
    if table.get("network") is False:
        kept["network"] = False
    return kept
