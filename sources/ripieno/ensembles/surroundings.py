"""``Surroundings``: the services of the application for origins and invocables."""

import fnmatch
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from frozendict import frozendict

from ripieno.canisters.events import Alert
from ripieno.descriptors.named_files import NamedFiles
from ripieno.sandbox import Sandbox, Spawner
from ripieno.storage.outputs import Outputs
from ripieno.storage.pins import Pins
from ripieno.storage.undo import UndoLog
from ripieno.values import Value

#: Gets the name of an ensemble and ``{"direction": "sent" or "received", "message": {…}}``. It must not raise.
Tap: TypeAlias = Callable[[str, Mapping[str, Any]], None]


class Surroundings(Value, kw_only=True):
    """The services of the application for origins and invocables.

    ``workspace`` is absolute; ``secrets`` are the variables that descriptors may name; ``alert`` sends an alert to
    the application, from any thread. ``pins`` has the approved definitions of foreign tools, ``journal`` logs
    changes of files for undo, ``sandbox`` confines programs. ``allow`` has the patterns of the allowed variables,
    which explain a missing one; None allows all. ``protected`` has real paths beneath the workspace that tools may
    not change, besides those protected by name. ``named`` has the code that ensembles name, as it was at start-up.
    ``absent`` has the reason of each ensemble that is not enabled, and None for the others. ``search_over`` is the
    number of tools above which their definitions are not sent; ``outputs`` stores results that are too long to be
    shown. ``tap`` gets each message to and from an MCP server, as JSON.
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
    named: NamedFiles = msgspec.field(default_factory=NamedFiles)
    absent: frozendict[str, str | None] = frozendict()
    search_over: int | None = None
    outputs: Outputs | None = None
    tap: Tap | None = None

    def allows(self, name: str) -> bool:
        """Whether a variable with this name is in ``secrets`` if it is set."""
        return self.allow is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.allow)
