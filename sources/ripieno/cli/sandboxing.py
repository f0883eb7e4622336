"""What ``ripieno doctor`` says of the sandbox: the tier that holds, what is in it, and why it is no higher."""

import os
from collections.abc import Mapping
from typing import Any

from ripieno.sandbox import Sandbox

_ROOT = (
    "This program runs as root, and so do its tools. Landlock is weaker for root: what only root may read is hidden "
    "from them beneath /etc, and nowhere else in the folders of the system. Run it as a user of its own."
)


def sandbox_facts(sandbox: Sandbox | None) -> dict[str, Any] | None:
    """The facts, as JSON. Tries which tiers hold."""
    if sandbox is None:
        return None
    wishes = sandbox.wishes
    return {
        "level": sandbox.level,
        "tier": sandbox.tier,
        "name": sandbox.name,
        "reason": sandbox.reason,
        "missing": sandbox.missing,
        "network": {None: "for tools that say so", True: "for all", False: "for none"}[wishes.network],
        "readable": list(wishes.readable),
        "writable": list(wishes.writable),
        "warnings": [_ROOT] if os.geteuid() == 0 and sandbox.tier in (1, 2) else [],
    }


def sandbox_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same as rows for people."""
    rows = [("level", facts["level"]), ("holds", facts["name"])]
    if facts["reason"]:
        rows.append(("no higher, because", facts["reason"]))
    if facts["missing"]:
        rows.append(("tools that need one", f"are not offered: {facts['missing']}"))
    rows.append(("network", facts["network"]))
    rows += [(name, ", ".join(facts[name])) for name in ("readable", "writable") if facts[name]]
    return rows + [("warning", text) for text in facts["warnings"]]
