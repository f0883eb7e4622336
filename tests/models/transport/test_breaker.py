"""The circuit breaker: every order of requests, outcomes and moments."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from ripieno.descriptors.timeouts import Caution
from ripieno.models.transport.breaker import Breaker

COOLDOWN = 30.0


class Requests(RuleBasedStateMachine):
    """Requests come, succeed, fail and are given up, while time passes; a plain account of it says what holds."""

    under_way = Bundle("under_way")

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(Caution(failures=3, cooldown=COOLDOWN))
        self.now = 100.0
        self.failures = 0
        self.opened: float | None = None
        self.trying: object = None

    @rule(seconds=st.sampled_from([0.0, 1.0, COOLDOWN / 2, COOLDOWN]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=under_way)
    def ask(self) -> object:
        seconds = self.breaker.seconds(self.now)
        if self.opened is None:
            assert seconds is None
        elif self.now < self.opened + COOLDOWN:
            assert seconds == self.opened + COOLDOWN - self.now
        elif self.trying is not None:
            assert seconds == 0.0
        else:
            assert seconds is None
        if seconds is not None:
            return multiple()
        trying = self.breaker.enter()
        assert trying is (self.opened is not None)
        request = [trying]
        if trying:
            self.trying = request
        return request

    @rule(request=consumes(under_way))
    def succeed(self, request: list[bool]) -> None:
        self.breaker.succeed()
        self.failures, self.opened, self.trying = 0, None, None

    @rule(request=consumes(under_way))
    def fail(self, request: list[bool]) -> None:
        trying = self.trying is request
        self.breaker.fail(self.now, f"at {self.now}", trying=trying)
        if self.opened is not None and not trying:
            return
        self.failures += 1
        if trying:
            self.trying = None
        if self.failures >= 3:
            self.opened = self.now

    @rule(request=consumes(under_way))
    def leave(self, request: list[bool]) -> None:
        trying = self.trying is request
        self.breaker.leave(trying=trying)
        if trying:
            self.trying = None

    @invariant()
    def nobody_waits_longer_than_the_cooldown(self) -> None:
        seconds = self.breaker.seconds(self.now)
        assert seconds is None or 0 <= seconds <= COOLDOWN
        assert self.breaker.failures == self.failures


TestRequests = Requests.TestCase
TestRequests.settings = settings(stateful_step_count=40)


def test_no_count_never_opens_it() -> None:
    breaker = Breaker(Caution(failures=0))
    for second in range(1000):
        breaker.fail(second, "no", trying=False)
    assert breaker.seconds(1000) is None
