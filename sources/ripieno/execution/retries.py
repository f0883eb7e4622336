"""Decides whether and when a failed call is retried (seed 000, section 7.2), and reads ``Retry-After``.

A call is retried only where repeating is safe: where it may run twice or was not sent, never when its outcome is
unknown, after it was cancelled, or past the end of its run.
"""

import email.utils
import math
import random
import time
from collections.abc import Callable, Mapping

from ripieno.canisters.faults import Fault
from ripieno.descriptors import Policy
from ripieno.exceptions import ExecutionFault, NetworkFault, PermissionFault, QuotaFault, ResourceFault, ToolFault

#: The code of a fault after which nothing has reached the other side, whatever the call does there.
NOT_SENT = "not_sent"


class Attempts:
    """The attempts of one call. ``count`` is the number begun, ``retried`` has the reason of each retry.

    ``chance`` returns a number from 0 to 1.
    """

    __slots__ = ("_chance", "_ended", "_repeatable", "_retry", "count", "retried")

    def __init__(self, policy: Policy, chance: Callable[[], float] = random.random) -> None:
        self._retry = policy.retry
        self._repeatable = policy.repeatable
        self._ended = False
        self._chance = chance
        self.count = 0
        self.retried: tuple[str, ...] = ()

    def end(self) -> None:
        """Allows no further attempt."""
        self._ended = True

    def again(self, fault: Fault, seconds: float | None) -> float | None:
        """Seconds until the next attempt; None when this one was the last.

        ``seconds`` are left for the run. A server may request a pause with ``details["retry_after"]``.
        """
        safe = self._repeatable or fault.code == NOT_SENT
        if safe and not self._ended and fault.category in self._retry.categories:
            pause = self._retry.pause(self.count, _retry_after(fault), self._chance())
            if pause is not None and (seconds is None or pause < seconds):
                distinct = fault.code and fault.code != fault.category
                why = f"{fault.category}/{fault.code}" if distinct else fault.category
                self.retried = (*self.retried, why)
                return pause
        self._ended = True
        return None

    def describe(self, pause: float) -> str:
        """The text of the progress event before the next attempt."""
        return f"attempt {self.count + 1} of {self._retry.max_retries + 1} in {pause:.2g} s: {self.retried[-1]}"


def _retry_after(fault: Fault) -> float | None:
    """The pause that the server requests, in seconds; None if there is no valid one."""
    value = fault.details.get("retry_after")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


#: The statuses of a server, or of one behind a proxy, that is unavailable for now.
_UNAVAILABLE = frozenset({502, 503, 504})


def seconds_after(headers: Mapping[str, str]) -> float | None:
    """The pause that a server's headers request, in seconds; None if they have none in a known form.

    ``retry-after-ms`` is exact and takes precedence; ``retry-after`` is seconds or a date (RFC 9110, 10.2.3).
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


#: Statuses with a category of their own; any other that is not transient is ``execution``.
_BY_STATUS: Mapping[int, type[ToolFault]] = {
    401: PermissionFault,
    403: PermissionFault,
    404: ResourceFault,
    410: ResourceFault,
}


def explain_status(message: str, status: int, headers: Mapping[str, str]) -> ToolFault:
    """The fault of an HTTP response that is no success; a transient one has the pause that the server requests."""
    details: dict[str, object] = {"status": status}
    if status != 429 and status not in _UNAVAILABLE:
        return _BY_STATUS.get(status, ExecutionFault)(message, code="http_status", details=details)
    seconds = seconds_after(headers)
    suggestion = "Wait before the next call."
    if seconds is not None:
        details["retry_after"] = seconds
        if seconds < 100_000:
            suggestion = f"Wait {math.ceil(seconds)} s before the next call."
    kind = QuotaFault if status == 429 else NetworkFault
    return kind(message, code="http_status", details=details, suggestion=suggestion)
