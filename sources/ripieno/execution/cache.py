"""Results of calls that change nothing, which stand for the same call made again, until something is written.

Asked for by ``cache = SECONDS`` in a policy. What is reused is as narrow as can be: the same invoker (which stands for
its definition, its presets, its configuration and its connection: a new connection has new invokers), the same
canonical arguments, the same conversation and caller. Namespaces, connections and whatever else a tool looks at belong
to these; nothing is ever shared between two conversations, who may be of two people.

An entry goes when its seconds are over, when there is no room, and when a call starts whose writes overlap with what
the entry's call read. While such a call runs nothing that overlaps with it is kept: a result that is reused is never
older than the last overlapping write that had ended before its own call began. What changes without a call (an editor,
a program that goes on in the background) is not seen: against that, there are the seconds.
"""

import asyncio
import dataclasses
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ripieno.canisters import Content, DocumentContent, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.canisters import now
from ripieno.ensembles import Invoker
from ripieno.exceptions import JsonInvalidity
from ripieno.execution.call import Call
from ripieno.execution.claims import Claims, claims_of
from ripieno.jsonvalues import canonical

#: How many results are kept, and bytes of content, of all conversations together.
ENTRIES = 512
SIZE = 16 * 2**20
#: Bytes; a larger result would drive out too many others.
LARGEST = 2**20

_Key: TypeAlias = tuple[Invoker, bytes, str, int, int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A call whose result may be reused. ``owners`` are what makes its conversation and its caller the same."""

    key: _Key
    owners: tuple[object, object]
    claims: Claims
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    asked: Asked
    result: ResultCanister
    size: int
    expires: float


class ResultCache:
    """The results of one execution, at most ``entries`` and ``size`` bytes; what was used least goes first."""

    def __init__(
        self, *, entries: int = ENTRIES, size: int = SIZE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = entries
        self._room = size
        self._clock = clock
        self._size = 0
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        #: The calls under way whose results may be kept; False when something was written since they began.
        self._reading: dict[Reading, bool] = {}
        #: The calls under way that may write, and those of which nobody knows whether they still do.
        self._writing: dict[object, Writing] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def ask(
        self,
        invoker: Invoker,
        arguments: Mapping[str, Any],
        *,
        conversation: str,
        namespaces: object,
        auxdata: object,
        output: int,
    ) -> Asked | None:
        """What is looked for and kept by; None where nothing is reused.

        ``namespaces`` and ``auxdata`` count by their identity: they are one conversation's and one caller's own.
        ``output`` is to how many bytes results are bounded.
        """
        policy = invoker.policy
        if policy.cache <= 0 or not policy.harmless:
            return None
        try:
            digest = hashlib.sha256(canonical(arguments)).digest()
        except JsonInvalidity:
            return None
        return Asked(
            key=(invoker, digest, conversation, id(namespaces), id(auxdata), output),
            owners=(namespaces, auxdata),
            claims=claims_of(invoker, arguments),
            seconds=policy.cache,
        )

    def find(self, asked: Asked, invocation: str) -> ResultCanister | None:
        """The earlier result, as that of another invocation; its report says that nothing was run."""
        entry = self._entries.get(asked.key)
        if entry is None:
            return None
        if self._clock() >= entry.expires:
            self._drop(asked.key)
            return None
        self._entries.move_to_end(asked.key)
        report = dataclasses.replace(
            entry.result.report, cached=True, attempts=0, retried=(), duration_ms=0.0, changes=()
        )
        return dataclasses.replace(entry.result, invocation_id=invocation, report=report, timestamp=now())

    def begin(self, invoker: Invoker, arguments: Mapping[str, Any], asked: Asked | None) -> "Reading | Writing | None":
        """A call begins; whoever runs it says ``end`` with its result. None when it does not matter here."""
        if not invoker.policy.harmless:
            return Writing(self, invoker, arguments)
        return None if asked is None else Reading(self, asked)

    def write(self, writing: "Writing") -> None:
        """Something is being written: drops what it overlaps with, also what is being read just now."""
        if not self._entries and not self._reading:
            return
        for key in [key for key, entry in self._entries.items() if writing.claims.conflicts(entry.asked.claims)]:
            self._drop(key)
        for reading in self._reading:
            if writing.claims.conflicts(reading.asked.claims):
                self._reading[reading] = False

    def open(self, writing: "Writing") -> None:
        """A call that may write begins."""
        self._writing[writing] = writing
        self.write(writing)

    def close(self, writing: "Writing", *, lost: bool) -> None:
        """It ended; a ``lost`` one may go on, and nothing that overlaps with it is ever kept again."""
        self.write(writing)
        del self._writing[writing]
        if lost:
            # By its claims, so that those that are the same are kept once.
            self._writing[writing.claims] = writing

    def enter(self, reading: "Reading") -> float:
        """A call whose result may be kept begins; gives the time."""
        claims = reading.asked.claims
        self._reading[reading] = not any(one.claims.conflicts(claims) for one in self._writing.values())
        return self._clock()

    def leave(self, reading: "Reading", result: ResultCanister, began: float) -> None:
        """It ended, with this result."""
        if self._reading.pop(reading) and result.error is None:
            self._keep(reading.asked, result, began)

    def _drop(self, key: _Key) -> None:
        self._size -= self._entries.pop(key).size

    def _keep(self, asked: Asked, result: ResultCanister, began: float) -> None:
        size = sum(map(_size, result.content))
        expires = began + asked.seconds
        if size > LARGEST or self._clock() >= expires:
            return
        if asked.key in self._entries:
            self._drop(asked.key)
        self._entries[asked.key] = _Entry(asked=asked, result=result, size=size, expires=expires)
        self._size += size
        while len(self._entries) > self._most or self._size > self._room:
            self._drop(next(iter(self._entries)))


class Reading:
    """A call under way whose result may be kept. Its seconds count from its beginning: what it says is that old."""

    __slots__ = ("_began", "_cache", "asked")

    def __init__(self, cache: ResultCache, asked: Asked) -> None:
        self.asked = asked
        self._cache = cache
        self._began = cache.enter(self)

    def end(self, result: ResultCanister) -> None:
        """Keeps the result, if it is a good one and nothing was written meanwhile."""
        self._cache.leave(self, result, self._began)


class Writing:
    """A call under way that may write. What it claims is looked up only if that matters to something."""

    __slots__ = ("_arguments", "_cache", "_claims", "_invoker")

    def __init__(self, cache: ResultCache, invoker: Invoker, arguments: Mapping[str, Any]) -> None:
        self._cache = cache
        self._invoker = invoker
        self._arguments = arguments
        self._claims: Claims | None = None
        cache.open(self)

    @property
    def claims(self) -> Claims:
        """What it reads and writes."""
        if self._claims is None:
            self._claims = claims_of(self._invoker, self._arguments)
        return self._claims

    def end(self, result: ResultCanister) -> None:
        """It writes no more; unless nobody knows what became of it, which also is where it was left behind."""
        self._cache.close(self, lost=result.error is not None and result.error.category == "outcome_unknown")


class Recalled(Call):
    """A call that has the result of an earlier one: like any other to whoever waits for it, and nothing is run."""

    __slots__ = ()

    def __init__(
        self, *, invocation: Any, invoker: Invoker, result: ResultCanister, early: bool, settled: Callable[[Call], None]
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        self.bug = None
        self.withdrawn = False
        self.outcome = None
        loop = asyncio.get_running_loop()
        self.result = loop.create_future()
        self._settled = settled
        # As soon as whoever asked for it has it in hand, and not before.
        loop.call_soon(self._deliver, result)

    def _deliver(self, result: ResultCanister) -> None:
        self.outcome = result
        self._settled(self)

    def cancel(self) -> None:
        """There is nothing to stop."""


def _size(content: Content) -> int:
    if isinstance(content, TextualContent):
        return len(content.text) if content.text.isascii() else len(content.text.encode())
    if isinstance(content, OpaqueContent):
        return len(canonical(content.data))
    if isinstance(content, DocumentContent):
        return len(content.data or b"") + len(content.url or "")
    return len(content.data)
