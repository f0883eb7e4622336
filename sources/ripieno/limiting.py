"""How far one run has gone, and what its limits refuse. Asked before each dispatch; never raises."""

import time

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.controls import Limits
from ripieno.conversations import NO_USAGE, Usage
from ripieno.ensembles import Invoker
from ripieno.faults import Fault
from ripieno.jsonvalues import freeze


class Budget:
    """Counts the turns, calls, seconds, repetitions and tokens of one run against its limits, from now on."""

    __slots__ = ("_repeats", "calls", "ends", "exhausted", "limits", "turns", "usage")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.calls = 0
        self.usage: Usage = NO_USAGE
        self.ends = time.monotonic() + limits.wall
        #: The first limit that was reached, in words; None as long as there is none.
        self.exhausted: str | None = None
        self._repeats: dict[tuple[str, object], tuple[object, int]] = {}

    @property
    def seconds(self) -> float:
        """What is left of the wall time; never below zero."""
        return max(0.0, self.ends - time.monotonic())

    def admits_turn(self) -> bool:
        """Whether the model may be asked once more; the turn counts from then on."""
        if self.exhausted is None:
            if self.turns >= self.limits.turns:
                self.exhausted = f"{self.limits.turns} turns"
            elif self.seconds <= 0:
                self.exhausted = f"{self.limits.wall:g} s"
            elif self.limits.tokens is not None and self.usage.total_tokens >= self.limits.tokens:
                self.exhausted = f"{self.limits.tokens} tokens"
        if self.exhausted is not None:
            return False
        self.turns += 1
        return True

    def refuse(self, invocation: InvocationCanister, invoker: Invoker, seconds: float) -> Fault | None:
        """Why a call may not be dispatched when ``seconds`` are left, or None."""
        repeats = self.limits.repeats if invoker.policy.repeats is None else invoker.policy.repeats
        reached: str | None = None
        if self.calls >= self.limits.calls:
            reached = f"{self.limits.calls} calls"
        elif seconds <= 0:
            reached = f"{self.limits.wall:g} s"
        elif self._repeats.get(_key(invocation), (None, 0))[1] >= repeats:
            reached = f"{repeats} times the same call with the same result"
        if reached is None:
            return None
        return self._fault(reached, "this run is limited to " + reached)

    def expire(self, why: str) -> Fault:
        """Why a call was not dispatched: the time ran out while something was waited for."""
        return self._fault(f"{self.limits.wall:g} s", why)

    def _fault(self, reached: str, why: str) -> Fault:
        self.exhausted = self.exhausted or reached
        return Fault(
            category="limit",
            message=f"The call was not run: {why}.",
            details=frozendict({"limit": reached}),
            recoverable=False,
            suggestion="Say what was found so far; the user can continue the conversation.",
        )

    def note(self, invocation: InvocationCanister, result: ResultCanister) -> None:
        """Remembers what came of a call that was run, so that a repetition is seen."""
        key = _key(invocation)
        digest = hash((result.content, result.error))
        before, times = self._repeats.get(key, (None, 0))
        self._repeats[key] = (digest, times + 1 if before == digest else 1)

    def spend(self, usage: Usage) -> None:
        """Adds what a turn cost."""
        if usage is not NO_USAGE:
            self.usage = self.usage + usage


def _key(invocation: InvocationCanister) -> tuple[str, object]:
    """What two calls have in common when they are the same."""
    try:
        hash(invocation.arguments)
    except TypeError:  # Made by hand, with lists in it.
        return invocation.name, freeze(invocation.arguments)
    return invocation.name, invocation.arguments
