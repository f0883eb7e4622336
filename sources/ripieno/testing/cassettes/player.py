"""Replays the lines of one run in order: each consumer waits until its line is next."""

import asyncio
import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ripieno.exceptions import ReplayDivergence
from ripieno.testing.cassettes.file import CassetteLine

#: The consumer of a line: its kind, and the request or the call.
Key: TypeAlias = tuple[str, object]
_CALL = "call"
#: Seconds without progress after which a waiting consumer gets an error.
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
    """The lines of one run. ``offered`` receives each line with the tools offered from then on.

    ``speed`` 1 replays with the recorded timing, 2 twice as fast, None without pauses. ``step`` counts the replayed
    requests. Errors of all methods: ``ReplayDivergence``.
    """

    def __init__(
        self, lines: Iterable[CassetteLine], *, path: str, speed: float | None, offered: Callable[[CassetteLine], None]
    ) -> None:
        # Questions of a running tool are not asked again: the tool does not run.
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
        return not self._lines

    async def take(self, kind: str, what: object = None) -> CassetteLine:
        """The next line, once it is for this consumer."""
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
                raise self.diverged(f"the run does not reach the next line; it needs {_described(key)}")

    def take_now(self, kind: str, what: object = None) -> CassetteLine | None:
        """The next line, if it is for this consumer."""
        return self._pop() if self._lines and _key(self._lines[0]) == (kind, what) else None

    def launch(self, invocation: str) -> CassetteLine | None:
        """Begins a call. Returns its result if it has one without having started."""
        self._launched.add(invocation)
        head = self._lines[0] if self._lines else None
        if head is not None and _key(head) == (_CALL, invocation) and head.fields.get("started") is False:
            return self._pop()
        return None

    def skip(self, request: int) -> None:
        kept = [line for line in self._lines if _key(line) != ("native", request)]
        self._lines = collections.deque(kept)
        self._advance()

    def fail(self, error: ReplayDivergence) -> None:
        """Ends the replay with an error, for all further consumers."""
        self._failure = self._failure or error
        self._wake(self._waiters.keys())

    def diverged(self, what: str) -> ReplayDivergence:
        """The error for a run that differs from the recording."""
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
        # A consumer whose line cannot be next must get its error.
        self._wake(self._waiters.keys() if not self._lines else (_key(self._lines[0]),))

    def _wake(self, keys: Iterable[Any]) -> None:
        for key in list(keys):
            waiter = self._waiters.get(key)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _check(self, key: Key) -> None:
        """Checks that the line can still become the next one. Errors: ``ReplayDivergence``."""
        if not self._lines:
            raise self.diverged(f"the recording ends here; the run needs {_described(key)}")
        head = _key(self._lines[0])
        if key[0] == _CALL:
            if not any(_key(line) == key for line in self._lines):
                raise self.diverged(f"the recording has no result for {_described(key)}")
        elif head[0] != _CALL or head[1] not in self._launched:
            raise self.diverged(f"the recording has {_described(head)} next; the run needs {_described(key)}")

    async def _rest(self, line: CassetteLine) -> None:
        if self._speed is None:
            return
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time() - line.ms / 1000 / self._speed
        seconds = self._began + line.ms / 1000 / self._speed - loop.time()
        if seconds > 0:
            await asyncio.sleep(seconds)


def _described(key: Key) -> str:
    kind, what = key
    return {
        "request": "a request to the model",
        "native": "the model's answer",
        "decision": f"a decision about the call {what}",
        _CALL: f"the call {what}",
    }.get(kind, f"a line of kind {kind!r}")
