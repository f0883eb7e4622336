"""The access of one process as a plain value, and the spawner that routes confined programs to tier 3."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ripieno.sandbox.bubblewrap import FILTER_DESCRIPTOR, arrange
from ripieno.sandbox.processes import Confining, Process, ProcessLimits, Spawner

Tier = Literal[0, 1, 2, 3]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The access of one process. Paths are absolute and resolved, and include everything beneath them.

    * ``protected`` is beneath ``writable`` and must not be changed; a folder ends in a slash. Tier 2 also protects
      missing paths, tier 1 only existing ones, and only in a mount namespace.
    * ``hidden`` is beneath ``readable`` and appears empty: in tier 2, and in tier 1 with a mount namespace.
    * ``network`` grants sockets.
    * ``namespaces`` None means as many as the kernel allows, otherwise exactly these, for tier 1.
    * ``memory`` and ``file_size`` (bytes), ``open_files`` and ``seconds`` of CPU time are limits of one process;
      ``processes`` is a limit of all together, where the kernel counts them. None leaves a limit unchanged.
    * ``program`` is bubblewrap, and ``own_processes`` whether it may mount a /proc, for tier 2.
    """

    tier: Tier = 1
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    namespaces: tuple[str, ...] | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    processes: int | None = None
    seconds: int | None = None
    program: str = ""
    own_processes: bool = True

    def mapping(self) -> dict[str, object]:
        """The form that the child side reads."""
        ours = ("program", "own_processes")
        mapping = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name not in ours}
        return {**mapping, "filter_descriptor": FILTER_DESCRIPTOR if self.tier == 2 else None}

    def prefix(self, directory: str) -> list[str]:
        """Tier 2's bubblewrap with its arguments, before the program's own; empty for other tiers."""
        if self.tier != 2:
            return []
        bubble = arrange(
            self.program,
            writable=self.writable,
            readable=self.readable,
            protected=self.protected,
            hidden=self.hidden,
            network=self.network,
            own_processes=self.own_processes,
        )
        return [*bubble, "--chdir", directory, "--"]


class RoutedSpawner(Spawner):
    """Starts confined programs with another spawner, from ``provide`` at the first use.

    The other spawner enforces the confinement in its own way or refuses.
    """

    def __init__(self, here: Spawner, provide: Callable[[], Spawner]) -> None:
        self._here = here
        self._provide = provide
        self._other: Spawner | None = None

    def other(self) -> Spawner:
        """The other spawner. Errors: any error of ``provide``."""
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
