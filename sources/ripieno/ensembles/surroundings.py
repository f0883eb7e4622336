"""What the application lends to origins and invocables."""

import dataclasses
import fnmatch
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from frozendict import frozendict

from ripieno.canisters.events import Alert
from ripieno.sandbox import Sandbox, Spawner
from ripieno.storage.outputs import Outputs
from ripieno.storage.pins import Pins
from ripieno.storage.undo import UndoLog

#: Is told the name of an ensemble and ``{"direction": "sent" or "received", "message": {…}}``. It never raises.
Tap: TypeAlias = Callable[[str, Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the application lends to origins and invocables.

    ``workspace`` is absolute; ``secrets`` are the variables that descriptors may name; ``alert`` tells the
    application something, from any thread. ``pins`` is what was approved of foreign tools,
    ``journal`` what lets changes of files be undone, ``sandbox`` where programs are confined. ``allow`` has the
    patterns of names that variables were chosen by, which say why one may be missing; None where all were taken.
    ``protected`` are true paths beneath the workspace that tools do not change, beside what is guarded by its name.
    ``absent`` says of each ensemble why it does not play; None of those that do. ``search_over`` is the number of tools
    beyond which their definitions are not sent, and ``outputs`` where results are kept that are too long to be shown.
    ``tap`` is told each message to and from a server of the Model Context Protocol, as JSON.
    """

    workspace: pathlib.Path
    spawner: Spawner
    secrets: Mapping[str, str]
    alert: Callable[[Alert], None]
    pins: Pins | None = None
    journal: UndoLog | None = None
    sandbox: Sandbox | None = None
    allow: tuple[str, ...] | None = None
    protected: tuple[str, ...] = ()
    absent: frozendict[str, str | None] = frozendict()  # noqa: RUF009
    search_over: int | None = None
    outputs: Outputs | None = None
    tap: Tap | None = None

    def allows(self, name: str) -> bool:
        """Whether a variable of that name is among the ``secrets`` when it is set."""
        return self.allow is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.allow)
