"""A cache of the results of calls that change nothing (``cache = SECONDS`` in a policy).

A result is reused only for the same invoker (a new connection has new ones), canonical arguments, conversation and
caller. An entry is dropped when its seconds are over, when the cache is full, and when a call starts whose writes
overlap with what the entry's call read. While such a call runs, no overlapping result is kept. So a reused result is
never older than the last overlapping write that had ended before its own call began. Changes without a call (an editor,
a program in the background) are not detected; the seconds bound their effect.
"""

import asyncio
import dataclasses
import functools
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from frozendict import frozendict

from ripieno.canisters import ResultCanister
from ripieno.canisters.canisters import now
from ripieno.ensembles import Invoker
from ripieno.exceptions import JsonInvalidity
from ripieno.execution.call import Call
from ripieno.execution.claims import Claims, claims_of
from ripieno.execution.results import size_of
from ripieno.jsonvalues import SCALARS, canonical
from ripieno.values import Value

#: Results, and bytes of content, of all conversations together.
ENTRIES = 512
SIZE = 16 * 2**20
#: Bytes; a larger result would displace too many others.
LARGEST = 2**20

_kind_of: Callable[[Any], object] = type
_Key: TypeAlias = tuple[Invoker, bytes, str, int, object, int]


class CacheableCall(Value, kw_only=True, eq=False):
    """A call whose result may be reused. ``owners`` keeps the objects alive whose identities are in the key."""

    key: _Key
    owners: tuple[object, object]
    claims: Claims
    seconds: float


class _Entry(Value, kw_only=True):
    call: CacheableCall
    result: ResultCanister
    size: int
    expires: float


class ResultCache:
    """The results of one execution, at most ``entries`` and ``size`` bytes; the least recently used is dropped."""

    def __init__(
        self, *, entries: int = ENTRIES, size: int = SIZE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = entries
        self._size_limit = size
        self._clock = clock
        self._size = 0
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        #: The calls under way whose results may be kept.
        self._reading: set[_Reading] = set()
        #: The calls under way that may write, and ended calls that may still be writing.
        self._writing: dict[object, _Writing] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def cacheable(
        self,
        invoker: Invoker,
        arguments: Mapping[str, Any],
        *,
        conversation: str,
        namespaces: object,
        auxdata: object,
        output: int,
    ) -> CacheableCall | None:
        """The key and the claims of a call; None if its result may not be reused.

        ``namespaces`` counts by its identity, and so do objects in ``auxdata``; frozen data counts by its value.
        ``output`` is the limit of results, in bytes.
        """
        policy = invoker.policy
        if policy.cache <= 0 or not policy.harmless:
            return None
        try:
            digest = hashlib.sha256(canonical(arguments)).digest()
        except JsonInvalidity:
            return None
        return CacheableCall(
            key=(invoker, digest, conversation, id(namespaces), _identity(auxdata), output),
            owners=(namespaces, auxdata),
            claims=claims_of(invoker, arguments),
            seconds=policy.cache,
        )

    def find(self, call: CacheableCall, invocation: str) -> ResultCanister | None:
        """The earlier result, as the result of another invocation; its report states that nothing was run."""
        entry = self._entries.get(call.key)
        if entry is None:
            return None
        if self._clock() >= entry.expires:
            self._drop(call.key)
            return None
        self._entries.move_to_end(call.key)
        report = dataclasses.replace(
            entry.result.report, cached=True, attempts=0, retried=(), duration_ms=0.0, changes=()
        )
        return dataclasses.replace(entry.result, invocation_id=invocation, report=report, timestamp=now())

    def begin(
        self, invoker: Invoker, arguments: Mapping[str, Any], call: CacheableCall | None
    ) -> Callable[[ResultCanister], None] | None:
        """Notes that a call begins; returns the function that takes its result, or None if none is needed."""
        if not invoker.policy.harmless:
            writing = _Writing(invoker, arguments)
            self._writing[writing] = writing
            self._write(writing)
            return functools.partial(self._end_write, writing)
        if call is None:
            return None
        fresh = not any(one.claims.conflicts(call.claims) for one in self._writing.values())
        reading = _Reading(call=call, began=self._clock(), fresh=fresh)
        self._reading.add(reading)
        return functools.partial(self._end_read, reading)

    def _write(self, writing: "_Writing") -> None:
        if not self._entries and not self._reading:
            return
        for key in [key for key, entry in self._entries.items() if writing.claims.conflicts(entry.call.claims)]:
            self._drop(key)
        for reading in self._reading:
            reading.fresh = reading.fresh and not writing.claims.conflicts(reading.call.claims)

    def _end_write(self, writing: "_Writing", result: ResultCanister) -> None:
        self._write(writing)
        del self._writing[writing]
        if result.error is not None and result.error.category == "outcome_unknown":
            # It may still write, as an abandoned call may. By its claims, so that equal ones are stored once.
            self._writing[writing.claims] = writing

    def _end_read(self, reading: "_Reading", result: ResultCanister) -> None:
        self._reading.remove(reading)
        if not reading.fresh or result.error is not None:
            return
        call, size = reading.call, sum(map(size_of, result.content))
        expires = reading.began + call.seconds
        if size > LARGEST or self._clock() >= expires:
            return
        if call.key in self._entries:
            self._drop(call.key)
        self._entries[call.key] = _Entry(call=call, result=result, size=size, expires=expires)
        self._size += size
        while len(self._entries) > self._limit or self._size > self._size_limit:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        self._size -= self._entries.pop(key).size


def _identity(auxdata: Any) -> object:
    """A key that is equal for equal frozen data, and for the same object of any other kind."""
    kind = _kind_of(auxdata)
    if kind is frozendict:
        return (kind, *((key, _identity(item)) for key, item in auxdata.items()))
    if kind is tuple:
        return (kind, *map(_identity, auxdata))
    return (kind, auxdata) if kind in SCALARS else id(auxdata)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Reading:
    """A call under way whose result may be kept. ``fresh``: no overlapping write happened since it began."""

    call: CacheableCall
    began: float
    fresh: bool


@dataclasses.dataclass(eq=False)
class _Writing:
    """A call under way that may write. Its claims are computed only when they are compared."""

    invoker: Invoker
    arguments: Mapping[str, Any]

    @functools.cached_property
    def claims(self) -> Claims:
        """The resources that it reads and writes."""
        return claims_of(self.invoker, self.arguments)


class CachedCall(Call):
    """A call with the result of an earlier one. Its callers see no difference; no tool runs."""

    def __init__(
        self, *, invocation: Any, invoker: Invoker, result: ResultCanister, early: bool, settled: Callable[[Call], None]
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        loop = asyncio.get_running_loop()
        self.result = loop.create_future()
        self._settled = settled
        # Not before the caller has this object.
        loop.call_soon(self._deliver, result)

    def _deliver(self, result: ResultCanister) -> None:
        self.outcome = result
        settled = self._settled
        del self._settled
        settled(self)

    def cancel(self) -> None:
        """Does nothing: no tool runs."""
