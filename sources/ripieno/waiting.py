"""When a server that does not answer now may be asked again."""

import email.utils
import math
import time
from collections.abc import Mapping

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
