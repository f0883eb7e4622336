"""Writing again while the server of a journal is away: all writers of a journal share one wait."""

import time
from collections.abc import Callable
from typing import TypeVar

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Disconnected, RowConflict

#: Seconds after the beginning of an outage, until which the server is tried again.
PATIENCE = 30.0
#: Seconds from which an attempt is slow. Connections that are refused fail at once; a time limit is longer.
_SLOW = 2.0

_Result = TypeVar("_Result")


class Outage:
    """Since when the server of a journal is away. Threads may share it.

    After ``PATIENCE``, each write is one attempt. A machine that vanished refuses no connection: after a slow attempt,
    writes fail without one for as long as it took.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: When the first attempt that failed began. None while the server answers.
        self._since: float | None = None
        #: The error of the last slow attempt, and until when nothing else is tried.
        self._failure = ""
        self._until = 0.0

    def retried(self, name: str, write: Callable[[], _Result]) -> _Result:
        """Writes again where another program was first, and for some time where the server went away.

        ``name`` is that of the journal. Errors: ``Disconnected``; ``InputError`` if other programs are always first.
        """
        began = attempt = self._clock()
        pause = 0.05
        while True:
            if self._since is not None and attempt < self._until:
                raise Disconnected(self._failure)
            try:
                result = write()
            except RowConflict as error:
                if self._clock() > began + PATIENCE:
                    raise InputError(f"The journal {name} cannot be written: {error}.") from error
            except Disconnected as error:
                if self._has_lasted(attempt, error):
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            else:
                self._since = None
                return result
            attempt = self._clock()

    def _has_lasted(self, attempt: float, error: Disconnected) -> bool:
        """Notes the failure of an attempt that began then. Returns whether the outage is longer than the patience."""
        since, now = self._since, self._clock()
        if since is None:
            since = self._since = attempt
        # A slow attempt before may have been that of a connection that was lost: a new one is tried once.
        if attempt > since + PATIENCE and now - attempt >= _SLOW:
            self._failure, self._until = str(error), now + (now - attempt)
        return now > since + PATIENCE
