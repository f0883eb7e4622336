"""What the application lends to origins and invocables."""

import dataclasses
import fnmatch
import pathlib
from collections.abc import Callable, Mapping

from ripieno.events import Alert
from ripieno.pins import Pins
from ripieno.processes import Spawner


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the application lends to origins and invocables.

    ``workspace`` is absolute; ``secrets`` are the variables that descriptors may name; ``alert`` tells the
    application something, from any thread. ``pins`` is what was approved of foreign tools. ``allow`` has the patterns
    of names that variables were chosen by, which say why one may be missing; None where all were taken.
    """

    workspace: pathlib.Path
    spawner: Spawner
    secrets: Mapping[str, str]
    alert: Callable[[Alert], None]
    pins: Pins | None = None
    allow: tuple[str, ...] | None = None

    def allows(self, name: str) -> bool:
        """Whether a variable of that name is among the ``secrets`` when it is set."""
        return self.allow is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.allow)
