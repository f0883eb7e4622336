"""Counts of the large loops: a twentieth, or less, in ``make test``; all of them in ``make attack``."""

import os

ATTACK = os.environ.get("RIPIENO_ATTACK") == "1"


def count(full: int, part: int = 20) -> int:
    """``full`` under attack, otherwise one ``part``-th of it (at least one)."""
    return full if ATTACK else max(1, full // part)
