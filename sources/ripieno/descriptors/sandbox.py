"""``[sandbox]``: how strictly programs are confined, and what they may access."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Flag, Number, Several, Text
from ripieno.values import Value

Level = Literal["required", "auto", "off"]
#: In order of strictness.
LEVELS: tuple[str, ...] = ("off", "auto", "required")

PATHS = Several(Text(), "paths")


class SandboxDescriptor(Value, kw_only=True):
    """The operator's settings. ``level`` None is "required" on Linux and "auto" elsewhere.

    ``tier`` is the required tier; None is the highest available. ``provider`` names a plugin's sandbox (tier 3).
    Paths from a file are absolute. ``network`` None gives sockets to tools that require them.
    """

    level: Level | None = None
    tier: int | None = None
    provider: str | None = None
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool | None = None


_DEFAULTS = SandboxDescriptor()
SANDBOX = Table(
    "[sandbox]",
    "The confinement of programs that tools run.",
    Key.rows(
        _DEFAULTS,
        (
            "level",
            Text(choices=get_args(Level)),
            "Tools that run programs need a sandbox, use one if there is one, or use none. "
            "If absent, it is required on Linux and auto elsewhere.",
            "required",
        ),
        (
            "tier",
            Number(whole=True, minimum=1, maximum=2),
            "1 uses only the kernel, 2 uses bubblewrap. If absent, the highest that is available.",
            1,
        ),
        (
            "provider",
            Text(pattern=r"[a-z][a-z0-9_-]*", shape="the name of a plugin's sandbox"),
            "The sandbox of a plugin, which runs confined programs instead.",
            "containers",
        ),
        (
            "readable",
            PATHS,
            "Folders and files that programs may read in addition to the system's, from this file's folder.",
            ["~/.cargo/registry"],
        ),
        (
            "writable",
            PATHS,
            "Folders that programs may write in addition to the workspace, from this file's folder.",
            ["~/.cache/builds"],
        ),
        ("network", Flag(), "Whether programs may open sockets. If absent, those whose tool requires it.", False),
    ),
)


def tighten(table: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a table that are at least as strict as those of an outer table."""
    known = SandboxDescriptor(**outer)
    kept: dict[str, Any] = {}
    # An absent level counts as the strictest: its default depends on the machine.
    level = LEVELS.index(known.level or "required")
    if "level" in table and LEVELS.index(table["level"]) >= level:
        kept["level"] = table["level"]
    if table.get("tier", 0) >= (known.tier or 2):
        kept["tier"] = table["tier"]
    if table.get("network") is False:
        kept["network"] = False
    return kept
