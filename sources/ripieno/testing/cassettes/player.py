"""Plays the lines of one run in their order: whoever wants one waits until it is the next."""

import asyncio
import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ripieno.exceptions import ReplayDivergence
from ripieno.testing.cassettes.file import CassetteLine

#: What a line is for: a kind, and the request or the call.
Key: TypeAlias = tuple[str, object]
_CALL = "call"
#: Seconds for which nothing is played before what waits is told that its line will not come.
PATIENCE = 10.0


def _key(line: CassetteLine) -> Key:
    match line.kind:
        case "native" | "failure":
            return ("native", line.fields["request"])
        case "event" | "result":
            return (_CALL, line.fields["invocation"])
        case "decision":
            return ("decision", line.fields["invocation"])
        case kind:
            return (kind, None)


class Player:
    """The lines of one run. ``offered`` is told what is offered from then on.

    ``speed`` 1 plays with the recorded timing, 2 twice as fast, and None as fast as it goes. ``step`` counts the
    requests that were played. Errors of all of it: ``ReplayDivergence``.
    """

    def __init__(
        self, lines: Iterable[CassetteLine], *, path: str, speed: float | None, offered: Callable[[CassetteLine], None]
    ) -> None:
        # What a tool asked in the middle of a call is not asked again: the tool does not run.
        self._lines = collections.deque(one for one in lines if not one.fields.get("question"))
        self._path = path
        self._speed = speed
        self._offered = offered
        self._waiters: dict[Key, asyncio.Future[None]] = {}
        self._launched: set[object] = set()
        self._began: float | None = None
        self._failure: ReplayDivergence | None = None
        self.step = 0
        self._advance()

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return not self._lines

    async def take(self, kind: str, what: object = None) -> CassetteLine:
        """The next line, when it is for this."""
        key = (kind, what)
        while True:
            if self._failure is not None and kind != _CALL:
                raise self._failure
            if self._lines and _key(self._lines[0]) == key:
                await self._rest(self._lines[0])
                return self._pop()
            self._check(key)
            waiter = self._waiters[key] = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait((waiter,), timeout=PATIENCE if self._speed is None else None)
            finally:
                self._waiters.pop(key, None)
            if not waiter.done():
                raise self.diverged(f"nobody asks for what the recording has next, and what is wanted is {_said(key)}")

    def take_now(self, kind: str, what: object = None) -> CassetteLine | None:
        """The next line, if it is for this."""
        return self._pop() if self._lines and _key(self._lines[0]) == (kind, what) else None

    def launch(self, invocation: str) -> CassetteLine | None:
        """A call begins; its result, where it had that without beginning."""
        self._launched.add(invocation)
        head = self._lines[0] if self._lines else None
        if head is not None and _key(head) == (_CALL, invocation) and head.fields.get("started") is False:
            return self._pop()
        return None

    def has(self, kind: str, what: object) -> bool:
        """Whether any line that is left is for this."""
        return any(_key(line) == (kind, what) for line in self._lines)

    def skip(self, request: int) -> None:
        """Nobody hears the rest of an answer."""
        kept = [line for line in self._lines if _key(line) != ("native", request)]
        self._lines = collections.deque(kept)
        self._advance()

    def fail(self, error: ReplayDivergence) -> None:
        """Ends it with an error, which whoever comes next is told."""
        self._failure = self._failure or error
        self._wake(self._waiters.keys())

    def diverged(self, what: str) -> ReplayDivergence:
        """The error that says where the replay went another way."""
        return ReplayDivergence(self._path, self.step, what)

    def _pop(self) -> CassetteLine:
        line = self._lines.popleft()
        if line.kind == "request":
            self.step += 1
        self._advance()
        return line

    def _advance(self) -> None:
        while self._lines and self._lines[0].kind == "ensemble":
            self._offered(self._lines.popleft())
        # Whoever waits for a line that will not come next has to know.
        self._wake(self._waiters.keys() if not self._lines else (_key(self._lines[0]),))

    def _wake(self, keys: Iterable[Any]) -> None:
        for key in list(keys):
            waiter = self._waiters.get(key)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _check(self, key: Key) -> None:
        """Errors: ``ReplayDivergence`` when that line cannot become the next one."""
        if not self._lines:
            raise self.diverged(f"the recording stopped here; what is wanted is {_said(key)}")
        head = _key(self._lines[0])
        if key[0] == _CALL:
            if not self.has(*key):
                raise self.diverged(f"the recording has no result for {_said(key)}")
        elif head[0] != _CALL or head[1] not in self._launched:
            raise self.diverged(f"the recording has {_said(head)} next, and what is wanted is {_said(key)}")

    async def _rest(self, line: CassetteLine) -> None:
        """Until the line is due."""
        if self._speed is None:
            return
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time() - line.ms / 1000 / self._speed
        seconds = self._began + line.ms / 1000 / self._speed - loop.time()
        if seconds > 0:
            await asyncio.sleep(seconds)


def _said(key: Key) -> str:
    kind, what = key
    return {
        "request": "a request to the model",
        "native": "the model's answer",
        "decision": f"a decision about the call {what}",
        _CALL: f"the call {what}",
    }.get(kind, f"a line of kind {kind!r}")
