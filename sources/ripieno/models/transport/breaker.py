"""When an endpoint that keeps failing is left alone for a while: a circuit breaker. Pure: it is told the time."""

from ripieno.descriptors.timeouts import Caution


class Breaker:
    """Counts the failures of one endpoint in a row, whoever asked it.

    *Closed*, everybody is let through. After ``caution.failures`` failures in a row it is *open*: nobody is. When
    ``caution.cooldown`` seconds have passed it is *half open*: one request is let through to try it, and its outcome
    closes or opens it. Times are seconds of one clock that never goes back.
    """

    __slots__ = ("_caution", "_failures", "_opens", "_trying", "openings", "words")

    def __init__(self, caution: Caution) -> None:
        self._caution = caution
        self._failures = 0
        #: When somebody may try it again; None as long as it is closed.
        self._opens: float | None = None
        self._trying = False
        #: How often it was opened that was closed.
        self.openings = 0
        #: What the last failure was, in words.
        self.words = ""

    @property
    def failures(self) -> int:
        """How many there were in a row."""
        return self._failures

    def seconds(self, now: float) -> float | None:
        """None when a request is let through; otherwise in how many seconds one may be, at the earliest."""
        if self._opens is None:
            return None
        if now < self._opens:
            return self._opens - now
        return 0.0 if self._trying else None

    def enter(self) -> bool:
        """A request that was let through begins. Gives whether it is the one that tries: it hands that back."""
        if self._opens is None:
            return False
        self._trying = True
        return True

    def succeed(self) -> None:
        """The endpoint has answered."""
        self._failures = 0
        self._opens = None
        self._trying = False

    def fail(self, now: float, words: str, *, trying: bool) -> None:
        """The endpoint has failed. What began before it was opened does not keep it open for longer."""
        if self._opens is not None and not trying:
            return
        self._failures += 1
        self.words = words
        self._trying = False
        if 0 < self._caution.failures <= self._failures:
            self.openings += self._opens is None
            self._opens = now + self._caution.cooldown

    def leave(self, *, trying: bool) -> None:
        """Nobody waited for the outcome: whoever comes next may try."""
        if trying:
            self._trying = False


class Breakers:
    """One breaker for each endpoint, whichever provider it is asked as."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, Caution], Breaker] = {}

    def access(self, address: str, caution: Caution) -> Breaker:
        """The breaker of an address. Providers that are not equally cautious do not share theirs."""
        return self._made.setdefault((address.rstrip("/"), caution), Breaker(caution))
