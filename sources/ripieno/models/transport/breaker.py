"""A circuit breaker for endpoints that keep failing. Pure: it receives the time."""

from ripieno.descriptors.timeouts import Caution


class Breaker:
    """Counts consecutive failures of one endpoint, over all its users.

    *Closed*: all requests pass. After ``caution.failures`` consecutive failures it is *open*: none pass. After
    ``caution.cooldown`` seconds it is *half open*: one request passes as a trial, and its outcome closes or opens it.
    Times are seconds of one monotonic clock.
    """

    __slots__ = ("_caution", "_opens", "_trying", "failures", "openings", "reason")

    def __init__(self, caution: Caution) -> None:
        self._caution = caution
        #: Consecutive failures.
        self.failures = 0
        #: The time of the next trial; None while it is closed.
        self._opens: float | None = None
        self._trying = False
        #: How often it went from closed to open.
        self.openings = 0
        #: The reason of the last failure.
        self.reason = ""

    def seconds(self, now: float) -> float | None:
        """None if a request may pass; otherwise the seconds until one may, at the earliest."""
        if self._opens is None:
            return None
        if now < self._opens:
            return self._opens - now
        return 0.0 if self._trying else None

    def enter(self) -> bool:
        """Begins a request that may pass. Returns whether it is the trial, to be passed to ``fail`` or ``leave``."""
        if self._opens is None:
            return False
        self._trying = True
        return True

    def succeed(self) -> None:
        """Records an answer of the endpoint."""
        self.failures = 0
        self._opens = None
        self._trying = False

    def fail(self, now: float, reason: str, *, trying: bool) -> None:
        """Records a failure. A request that began before the breaker opened does not extend the time."""
        if self._opens is not None and not trying:
            return
        self.failures += 1
        self.reason = reason
        self._trying = False
        if 0 < self._caution.failures <= self.failures:
            self.openings += self._opens is None
            self._opens = now + self._caution.cooldown

    def leave(self, *, trying: bool) -> None:
        """Ends a request whose outcome is unknown; the next one may be the trial."""
        if trying:
            self._trying = False
