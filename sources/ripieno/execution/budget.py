"""How far one run has gone, and what its limits refuse. Asked before each dispatch; never raises."""

import collections
import json
import time
from typing import TypeAlias

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.conversation import NO_USAGE, Usage
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Invoker
from ripieno.jsonvalues import freeze, thaw

#: What two calls have in common when they are the same: the tool's name, and the arguments.
_Call: TypeAlias = tuple[str, object]
#: Calls in a circle that is recognised.
_LONGEST = 4
#: Rounds of a circle that are remembered; an invoker that allows more is one for polling.
_ROUNDS = 64
_NAMED = 200
_CONTINUE = "Say what was found so far; the user can continue the conversation."


class Budget:
    """Counts the turns, calls, seconds, repetitions and tokens of one run against its limits, from now on."""

    __slots__ = ("_past", "_repeats", "calls", "ends", "exhausted", "limits", "turns", "usage")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.calls = 0
        self.usage: Usage = NO_USAGE
        self.ends = time.monotonic() + limits.wall
        #: The first limit that was reached, in words; None as long as there is none.
        self.exhausted: str | None = None
        #: For each call, what came of it last, and how often in a row.
        self._repeats: dict[_Call, tuple[object, int]] = {}
        #: The calls that ended last, with what came of each.
        self._past: collections.deque[tuple[_Call, object]] = collections.deque(maxlen=_LONGEST * _ROUNDS)

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
        reached: str | None = None
        if self.calls >= self.limits.calls:
            reached = f"{self.limits.calls} calls"
        elif seconds <= 0:
            reached = f"{self.limits.wall:g} s"
        if reached is not None:
            return self._fault(reached, "this run is limited to " + reached)
        return self.break_loop(invocation, invoker)

    def break_loop(self, invocation: InvocationCanister, invoker: Invoker | None = None) -> Fault | None:
        """Why a call is one too many, or None: the same came of it, or of a circle of calls, again and again.

        An invoker's own ``repeats`` stands in place of the limit; it counts for no circle then.
        """
        own = None if invoker is None else invoker.policy.repeats
        repeats = self.limits.repeats if own is None else own
        key = _key(invocation)
        if self._repeats.get(key, (None, 0))[1] >= repeats:
            reached = f"{repeats} times the same call with the same result"
            return self._loop(reached, _named(key), repeats)
        circle = () if own is not None else self._circle(key, repeats)
        if not circle:
            return None
        reached = f"{repeats} times the same {len(circle)} calls with the same results"
        return self._loop(reached, ", ".join(map(_named, circle)), repeats)

    def _circle(self, key: _Call, repeats: int) -> tuple[_Call, ...]:
        """The calls that have come in a circle, which another one of ``key`` would begin again; else none."""
        if len(self._past) < 2 * repeats:
            return ()
        past = tuple(self._past)
        for length in range(2, _LONGEST + 1):
            rounds = past[-length * repeats :]
            if len(rounds) < length * repeats or rounds[0][0] != key:
                continue
            if all(one == rounds[place % length] for place, one in enumerate(rounds)):
                return tuple(call for call, _ in rounds[:length])
        return ()

    def _loop(self, reached: str, what: str, repeats: int) -> Fault:
        again = f"{what} brought the same {repeats} times, and would again"
        return self._fault(
            reached,
            f"{again}; this run is limited to {reached}",
            "Do not repeat it. Try another tool or other arguments, or say what was found so far and what stands in "
            "the way; the user can continue the conversation.",
        )

    def expire(self, why: str) -> Fault:
        """Why a call was not dispatched: the time ran out while something was waited for."""
        return self._fault(f"{self.limits.wall:g} s", why)

    def _fault(self, reached: str, why: str, suggestion: str = _CONTINUE) -> Fault:
        self.exhausted = self.exhausted or reached
        return Fault(
            category="limit",
            message=f"The call was not run: {why}.",
            details=frozendict({"limit": reached}),
            recoverable=False,
            suggestion=suggestion,
        )

    def note(self, invocation: InvocationCanister, result: ResultCanister) -> None:
        """Remembers what came of a call, so that a repetition is seen."""
        key, digest = _key(invocation), _digest(result)
        before, times = self._repeats.get(key, (None, 0))
        self._repeats[key] = (digest, times + 1 if before == digest else 1)
        self._past.append((key, digest))

    def spend(self, usage: Usage) -> None:
        """Adds what a turn cost."""
        if usage is not NO_USAGE:
            self.usage = self.usage + usage


def _key(invocation: InvocationCanister) -> _Call:
    try:
        hash(invocation.arguments)
    except TypeError:  # Made by hand, with lists in it.
        return invocation.name, freeze(invocation.arguments)
    return invocation.name, invocation.arguments


def _digest(result: ResultCanister) -> object:
    """What two results have in common when they are the same. Of a failure only what it is: details may differ."""
    error = result.error
    failure = None if error is None else (error.category, error.code, _unmarked(error.message, result.invocation_id))
    return hash((result.content, failure))


def _unmarked(message: str, identifier: str) -> str:
    """A message without the identifier of the call that it is about, where that is told apart from other words."""
    return message.replace(identifier, "") if len(identifier) > 8 else message


def _named(call: _Call) -> str:
    """A call as a model knows it."""
    name, arguments = call
    text = json.dumps(thaw(arguments), ensure_ascii=False, default=str)
    return f"{name} {text if len(text) <= _NAMED else text[:_NAMED] + '…'}"
