"""Ends a program at a second signal if a tool blocks its event loop, which then handles no signal.

An ``async`` function that never awaits, as one that calls ``time.sleep`` or a client without ``async``, keeps the loop
from everything: time-outs, cancellation, and the signals that end a command.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from ripieno.cli.common import exit_codes

#: Seconds for which the loop may leave a signal: a busy one gets it within milliseconds.
PATIENCE = 1.0


class Blockade:
    """Notices signals that the event loop does not get. For the main thread. ``say`` writes a line for the user."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        #: The time of the first signal that the loop has not got.
        self._since: float | None = None

    def watch(self, number: int) -> None:
        """Watches a signal for which the loop has a handler, which must call ``over``."""
        signal.signal(number, self._arrive)

    def over(self) -> None:
        """Notes that the loop has got a signal."""
        self._since = None

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since < PATIENCE:
            return
        from ripieno.cli.common.user_code import place_of_frame

        place = None if frame is None else place_of_frame(frame)
        message = "Ended: the program is blocked."
        if place is not None:
            message = f"Ended: {place} blocks the program. Make it a plain function without async: that has a thread."
        try:
            self._say(message)
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            # The first process of a container does not end by it.
            os._exit(exit_codes.SIGNAL + number)
