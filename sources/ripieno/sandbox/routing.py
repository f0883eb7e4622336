"""Tier 3: programs that are confined go to a plugin's spawner, and all others stay here."""

import os
from collections.abc import Callable, Mapping, Sequence

from ripieno.processes import Confining, Process, ProcessLimits, Spawner


class RoutedSpawner(Spawner):
    """Starts what is confined with another spawner, which ``provide`` gives; it is asked once, when it is needed.

    The other one is given the confinement, and keeps it in its own way or refuses.
    """

    def __init__(self, here: Spawner, provide: Callable[[], Spawner]) -> None:
        self._here = here
        self._provide = provide
        self._other: Spawner | None = None

    def other(self) -> Spawner:
        """The other spawner. Errors: whatever ``provide`` raises."""
        if self._other is None:
            self._other = self._provide()
        return self._other

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str],
        limits: ProcessLimits,
        *,
        pipe_stdin: bool = False,
        confinement: Confining | None = None,
    ) -> Process:
        spawner = self._here if confinement is None else self.other()
        return await spawner.start(argv, environment, directory, limits, pipe_stdin=pipe_stdin, confinement=confinement)
