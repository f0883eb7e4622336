"""The access of one process as a plain value."""

import dataclasses
from typing import Literal

from ripieno.sandbox.confinement.settings import Settings

Tier = Literal[0, 1, 2, 3]


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
