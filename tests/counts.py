"""How many times the large loops run: a twentieth in ``make test``, all of them in ``make attack``."""

import os

ATTACK = os.environ.get("RIPIENO_ATTACK") == "1"


def count(full: int) -> int:
    """``full`` under attack, otherwise a twentieth of it (at least one)."""
    return full if ATTACK else max(1, full // 20)
