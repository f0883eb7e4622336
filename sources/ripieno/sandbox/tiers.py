"""The access of one process as a plain value."""

import dataclasses
import os
from typing import Literal

from ripieno.sandbox.confinement.settings import Settings

Tier = Literal[0, 1, 2, 3]

#: Processes of one program with all that it starts.
MOST_PROCESSES = 2048
_MOST_MEMORY = 8 * 2**30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement(Settings):
    """The access of one process, with what tier 2 needs to know to start it.

    ``program`` is bubblewrap, and ``own_processes`` whether it may mount a /proc.
    """

    tier: Tier = 1
    program: str = ""
    own_processes: bool = True

    def mapping(self) -> dict[str, object]:
        """The form that the child side reads."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(Settings)}


def most_memory() -> int:
    """Bytes for all programs together: half of the machine's memory, at most 8 GiB."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _MOST_MEMORY
    return min(_MOST_MEMORY, max(total // 2, 2**30))
