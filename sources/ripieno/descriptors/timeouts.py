"""How patient one is with an endpoint: how long its answers may take, and when it is left alone for a while."""

import dataclasses

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Number


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. A model may think for minutes before it says anything, and in the middle of an answer as well.

    ``connect`` is for the connection alone; ``first_byte`` runs from the request to the first piece of the answer's
    body, ``between`` from one piece to the next, ``whole`` from the request to the end of the answer.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    between: float = 600.0
    whole: float = 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """After how many failures in a row an endpoint is left alone (0: never), and for how many seconds."""

    failures: int = 5
    cooldown: float = 30.0


_SECONDS = Number(above=0, unit="seconds")
_TIMEOUTS, _CAUTION = Timeouts(), Caution()

TIMEOUTS = Table(
    title="timeouts",
    documentation="How long an answer may take.",
    keys=tuple(
        Key(name=name, kind=_SECONDS, documentation=documentation, default=getattr(_TIMEOUTS, name), example=example)
        for name, documentation, example in (
            ("connect", "Seconds until there is a connection.", 5),
            ("first_byte", "Seconds from the request to the first piece of the answer.", 120),
            ("between", "Seconds from one piece of the answer to the next.", 60),
            ("whole", "Seconds from the request to the end of the answer.", 900),
        )
    ),
)
BREAKER = Table(
    title="[breaker]",
    documentation="When an endpoint that keeps failing is left alone for a while.",
    keys=(
        Key(
            name="failures",
            kind=Number(whole=True, minimum=0),
            documentation="Failures in a row after which it is not asked any more; 0 asks always.",
            default=_CAUTION.failures,
            example=3,
        ),
        Key(
            name="cooldown",
            kind=_SECONDS,
            documentation="Seconds after which one request tries it again.",
            default=_CAUTION.cooldown,
            example=60,
        ),
    ),
)
