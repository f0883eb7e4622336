"""Timeouts and circuit breaker of an endpoint."""

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Number
from ripieno.values import Value


class Timeouts(Value, kw_only=True):
    """Seconds. A model may need minutes before its first output, and also within an answer.

    ``connect`` is for the connection; ``first_byte`` is from the request to the first part of the answer's body,
    ``between`` from one part to the next, ``whole`` from the request to the end of the answer.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    between: float = 600.0
    whole: float = 3600.0


class Caution(Value, kw_only=True):
    """A circuit breaker: the failures in a row that open it (0: never), and the seconds until one retry."""

    failures: int = 5
    cooldown: float = 30.0


_SECONDS = Number(above=0, unit="seconds")
_TIMEOUTS, _CAUTION = Timeouts(), Caution()

TIMEOUTS = Table(
    "timeouts",
    "Limits on the time of an answer.",
    Key.rows(
        _TIMEOUTS,
        ("connect", _SECONDS, "Seconds until the connection is established.", 5),
        ("first_byte", _SECONDS, "Seconds from the request to the first part of the answer.", 120),
        ("between", _SECONDS, "Seconds from one part of the answer to the next.", 60),
        ("whole", _SECONDS, "Seconds from the request to the end of the answer.", 900),
    ),
)
BREAKER = Table(
    "[breaker]",
    "When no requests are sent for a while to an endpoint that keeps failing.",
    Key.rows(
        _CAUTION,
        ("failures", Number(whole=True, minimum=0), "Failures in a row after which requests stop; 0 is never.", 3),
        ("cooldown", _SECONDS, "Seconds until one request tries it again.", 60),
    ),
)
