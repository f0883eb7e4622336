"""Counts of large loops and of laws' examples: a part in ``make test``, all of them in ``make attack``."""

import os

ATTACK = os.environ.get("RIPIENO_ATTACK") == "1"


def count(full: int, part: int = 50) -> int:
    """``full`` in ``make attack``, otherwise one ``part``-th of it (at least one)."""
    return full if ATTACK else max(1, full // part)
