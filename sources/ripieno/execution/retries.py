"""Whether a call whose attempt failed is made again, and after how many seconds (seed 000, section 7.2).

A call is made again only where repeating is safe, never when its outcome is unknown, never after it was cancelled, and
never past the end of its run.

When a server that does not answer now may be asked again.
"""

import email.utils
import math
import random
import time
from collections.abc import Callable, Mapping

from ripieno.canisters.faults import Fault
from ripieno.descriptors import Policy
from ripieno.exceptions import ExecutionFault, NetworkFault, QuotaFault


class Attempts:
    """The attempts of one call. ``count`` is how many began, ``retried`` why those failed that others follow.

    ``chance`` gives a number from 0 to 1.
    """

    __slots__ = ("_chance", "_ended", "_retry", "count", "retried")

    def __init__(self, policy: Policy, chance: Callable[[], float] = random.random) -> None:
        self._retry = policy.retry
        self._ended = not policy.repeatable
        self._chance = chance
        self.count = 0
        self.retried: tuple[str, ...] = ()

    def end(self) -> None:
        """There is no further attempt, whatever becomes of this one."""
        self._ended = True

    def again(self, fault: Fault, seconds: float | None) -> float | None:
        """How long to wait before the next attempt; None when this one was the last.

        ``seconds`` are left for the run. The other side may ask for a pause with ``details["retry_after"]``.
        """
        if not self._ended and fault.category in self._retry.categories:
            pause = self._retry.pause(self.count, _asked(fault), self._chance())
            if pause is not None and (seconds is None or pause < seconds):
                self.retried = (*self.retried, _named(fault))
                return pause
        self._ended = True
        return None

    def tell(self, pause: float) -> str:
        """The text of the progress event before the next attempt."""
        return f"attempt {self.count + 1} of {self._retry.max_retries + 1} in {pause:.2g} s: {self.retried[-1]}"


def _named(fault: Fault) -> str:
    return f"{fault.category}/{fault.code}" if fault.code and fault.code != fault.category else fault.category


def _asked(fault: Fault) -> float | None:
    """The seconds for which the other side asked to be left alone; None where it says nothing that can be read."""
    value = fault.details.get("retry_after")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


#: The statuses of who is not there for now, or stands before somebody who is not.
_AWAY = frozenset({502, 503, 504})


def seconds_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds a server wants to be left alone; None where it does not say so in a form that is known.

    ``retry-after-ms`` is exact, and comes first; ``retry-after`` is a number of seconds or a date (RFC 9110, 10.2.3).
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - time.time())
    except (OverflowError, TypeError, ValueError):
        return None


def explain_status(message: str, status: int, headers: Mapping[str, str]) -> ExecutionFault | NetworkFault | QuotaFault:
    """What a tool raises for an answer that is no success; one that may soon be another says when, if that is known."""
    details: dict[str, object] = {"status": status}
    if status != 429 and status not in _AWAY:
        return ExecutionFault(message, code="http_status", details=details)
    seconds = seconds_after(headers)
    suggestion = "Wait a while."
    if seconds is not None:
        details["retry_after"] = seconds
        if seconds < 100_000:
            suggestion = f"Wait {math.ceil(seconds)} s before the next call."
    kind = QuotaFault if status == 429 else NetworkFault
    return kind(message, code="http_status", details=details, suggestion=suggestion)
