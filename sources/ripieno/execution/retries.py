"""Whether a call whose attempt failed is made again, and after how many seconds (seed 000, section 7.2).

A call is made again only where repeating is safe, never when nobody knows what became of it, never after it was
cancelled, and never past the end of its run.

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

#: The most seconds that a server may ask to be left alone for. A longer wait is refused.
LONGEST_ASKED = 60.0
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


class Attempts:
    """The attempts of one call. ``count`` is how many began, ``retried`` why those failed that others follow.

    ``chance`` gives a number from 0 to 1: the whole of a backoff is jitter, so that those who failed together do not
    come back together.
    """

    __slots__ = ("_chance", "_left", "_policy", "count", "retried")

    def __init__(self, policy: Policy, chance: Callable[[], float] = random.random) -> None:
        self._policy = policy
        self._chance = chance
        self._left = policy.retry.max_retries if policy.repeatable else 0
        self.count = 0
        self.retried: tuple[str, ...] = ()

    def end(self) -> None:
        """There is no further attempt, whatever becomes of this one."""
        self._left = 0

    def again(self, fault: Fault, seconds: float | None) -> float | None:
        """How long to wait before the next attempt; None when this one was the last.

        ``seconds`` are left for the run. What the other side asks for (``details["retry_after"]``, in seconds) goes
        before our own backoff; one that asks for more than a minute is not waited for.
        """
        pause = self._pause(fault)
        if pause is not None and seconds is not None and pause >= seconds:
            pause = None
        if pause is None:
            self.end()
        else:
            self._left -= 1
            self.retried = (*self.retried, _named(fault))
        return pause

    def _pause(self, fault: Fault) -> float | None:
        retry = self._policy.retry
        if self._left <= 0 or fault.category not in retry.categories:
            return None
        asked = _asked(fault)
        if asked is not None and asked > LONGEST_ASKED:
            return None
        backoff = min(retry.max_backoff, retry.initial_backoff * retry.multiplier ** min(self.count - 1, 64))
        return max(asked or 0.0, backoff * self._chance())

    def tell(self, pause: float) -> str:
        """What is said of the next attempt."""
        return f"attempt {self.count + 1} of {self.count + 1 + self._left} in {pause:.2g} s: {self.retried[-1]}"


def _named(fault: Fault) -> str:
    return f"{fault.category}/{fault.code}" if fault.code and fault.code != fault.category else fault.category


def _asked(fault: Fault) -> float | None:
    """The seconds for which the other side asked to be left alone; None where it says nothing that can be read."""
    value = fault.details.get("retry_after")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)
