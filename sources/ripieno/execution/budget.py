"""Counts what one run has used and refuses calls beyond its limits. Never raises."""

import collections
import itertools
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

#: The tool's name and the arguments. Two calls with the same key are the same call.
_CallKey: TypeAlias = tuple[str, object]
#: Calls in the longest cycle that is recognised.
_LONGEST_CYCLE = 4
#: Rounds of a cycle that are remembered. An invoker that allows more is for polling.
_ROUNDS = 64
#: Characters of arguments in a message.
_SHOWN = 200
#: The code of the fault that ends a run of repeated calls.
REPEATED = "repeated_calls"
_CONTINUE = "Report what was found so far; the user can continue the conversation."


class Budget:
    """Counts the turns, calls, seconds, repetitions and tokens of one run against its limits, from now on."""

    __slots__ = ("_past", "_repeats", "_unlooped", "calls", "ends", "exhausted", "limits", "turns", "usage")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.calls = 0
        self.usage: Usage = NO_USAGE
        self.ends = time.monotonic() + limits.wall
        #: The first limit that was reached, in words.
        self.exhausted: str | None = None
        #: For each call, the digest of its last result, and how often in a row it came.
        self._repeats: dict[_CallKey, tuple[object, int]] = {}
        #: The call, and its invoker, that was found last to be in no loop; none when a call has ended since.
        self._unlooped: tuple[InvocationCanister, Invoker | None] | None = None
        #: The last calls that ended, each with the digest of its result.
        self._past: collections.deque[tuple[_CallKey, object]] = collections.deque(maxlen=_LONGEST_CYCLE * _ROUNDS)

    @property
    def seconds(self) -> float:
        """The rest of the wall time; never below zero."""
        return max(0.0, self.ends - time.monotonic())

    def admits_turn(self) -> bool:
        """Whether another turn is allowed. If so, counts it."""
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
        if self.calls < self.limits.calls and seconds > 0:
            return self.break_loop(invocation, invoker)
        reached = f"{self.limits.wall:g} s" if self.calls < self.limits.calls else f"{self.limits.calls} calls"
        return self._fault(reached, f"this run is limited to {reached}")

    def break_loop(self, invocation: InvocationCanister, invoker: Invoker | None = None) -> Fault | None:
        """The fault of a call that, alone or in a cycle of calls, had the same result too often; or None.

        An invoker's own ``repeats`` replaces the limit, and excludes its calls from the detection of cycles.
        """
        if self._unlooped is not None and self._unlooped[0] is invocation and self._unlooped[1] is invoker:
            return None  # A call is looked at when it is prepared, and again when it starts: mostly at once.
        own = None if invoker is None else invoker.policy.repeats
        repeats = self.limits.repeats if own is None else own
        key = _key(invocation)
        if self._repeats.get(key, (None, 0))[1] >= repeats:
            reached = f"{repeats} times the same call with the same result"
            return self._loop(reached, _shown(key), repeats)
        cycle = () if own is not None else self._cycle(key, repeats)
        if not cycle:
            self._unlooped = invocation, invoker
            return None
        reached = f"{repeats} times the same {len(cycle)} calls with the same results"
        return self._loop(reached, ", ".join(map(_shown, cycle)), repeats)

    def _cycle(self, key: _CallKey, repeats: int) -> tuple[_CallKey, ...]:
        """The cycle of calls that a call of ``key`` would begin again; or none."""
        past = len(self._past)
        for length in range(2, _LONGEST_CYCLE + 1):
            first = past - length * repeats
            if first < 0:
                return ()
            if self._past[first][0] != key:
                continue
            rounds = tuple(itertools.islice(self._past, first, None))
            if all(one == rounds[place % length] for place, one in enumerate(rounds)):
                return tuple(call for call, _ in rounds[:length])
        return ()

    def _loop(self, reached: str, what: str, repeats: int) -> Fault:
        return self._fault(
            reached,
            f"{what} had the same result {repeats} times; this run is limited to {reached}",
            "Do not repeat it. Try another tool or other arguments, or report what was found so far and what the "
            "problem is; the user can continue the conversation.",
            code=REPEATED,
        )

    def expire(self, why: str) -> Fault:
        """The fault of a call whose wall time ran out while it waited."""
        return self._fault(f"{self.limits.wall:g} s", why)

    def _fault(self, reached: str, why: str, suggestion: str = _CONTINUE, *, code: str = "") -> Fault:
        self.exhausted = self.exhausted or reached
        return Fault(
            category="limit",
            message=f"The call was not run: {why}.",
            code=code,
            details=frozendict({"limit": reached}),
            recoverable=False,
            suggestion=suggestion,
        )

    def note(self, invocation: InvocationCanister, result: ResultCanister) -> None:
        """Remembers the result of a call, to detect repetitions."""
        key, digest = _key(invocation), _digest(result)
        before, times = self._repeats.get(key, (None, 0))
        self._repeats[key] = (digest, times + 1 if before == digest else 1)
        self._past.append((key, digest))
        self._unlooped = None

    def spend(self, usage: Usage) -> None:
        """Adds the tokens of a turn."""
        if usage is not NO_USAGE:
            self.usage = self.usage + usage


def _key(invocation: InvocationCanister) -> _CallKey:
    try:
        hash(invocation.arguments)
    except TypeError:  # Built by an application, with lists in it.
        return invocation.name, freeze(invocation.arguments)
    return invocation.name, invocation.arguments


def _digest(result: ResultCanister) -> object:
    """A digest that is equal for equal results. The details of a failure are left out: they may differ."""
    error = result.error
    failure = None if error is None else (error.category, error.code, _unmarked(error.message, result.invocation_id))
    return hash((result.content, failure))


def _unmarked(message: str, identifier: str) -> str:
    """A message without the identifier of its call, if that is long enough not to be a common word."""
    return message.replace(identifier, "") if len(identifier) > 8 else message


def _shown(call: _CallKey) -> str:
    name, arguments = call
    text = json.dumps(thaw(arguments), ensure_ascii=False, default=str)
    return f"{name} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"
