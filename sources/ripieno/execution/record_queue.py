"""The queue of a remote recorder: what comes while it writes is collected for its next commit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ripieno.ensembles.threads import run_in_thread
from ripieno.execution.context import Circumstances
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.records import Record
from ripieno.values import Value

#: Writes records in one commit, and returns why that failed, if it did.
Write: TypeAlias = Callable[[Sequence[Record]], Exception | None]
#: Takes records that could not be written, and why.
Fail: TypeAlias = Callable[[Exception, Sequence[Record], Circumstances], None]


class Held(Value, kw_only=True):
    """Records that wait for others. ``then`` gets whether they were written; it must not raise."""

    records: Sequence[Record]
    scope: Circumstances
    then: Callable[[bool], None]


def write_together(write: Write, held: Sequence[Held]) -> Sequence[Exception | None]:
    """Writes all in one commit. If that fails, each alone: one that cannot be written does not lose the others.

    Not if the server is away: the recorder has tried that for long enough. Returns the error of each.
    """
    error = write([record for one in held for record in one.records])
    if error is None or len(held) == 1 or isinstance(error, Disconnected):
        return [error] * len(held)
    return [write(one.records) for one in held]


def deliver(held: Sequence[Held], errors: Sequence[Exception | None], fail: Fail) -> None:
    """Tells each whether it was written, after what failed is reported."""
    for one, error in zip(held, errors, strict=True):
        if error is not None:
            fail(error, one.records, one.scope)
        one.then(error is None)


class _Batch:
    """The records of one commit of a remote recorder. ``done`` is set when they are written or have failed."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class RecordQueue:
    """The records that a remote recorder still has to write, for one event loop."""

    def __init__(self, write: Write, fail: Fail) -> None:
        self._write = write
        self._fail = fail
        #: The batch that is being written, and the next one.
        self._under_way: _Batch | None = None
        self._next: _Batch | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def written(self) -> asyncio.Future[None] | None:
        """Done when all that is held now is written or has failed; None if nothing is held.

        What is added later does not delay it.
        """
        last = self._next or self._under_way
        return None if last is None else last.done

    def add(self, held: Held) -> None:
        if self._next is None:
            self._next = _Batch()
        self._next.held.append(held)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._next is not None:
                batch, self._next = self._next, None
                self._under_way = batch
                errors = await run_in_thread(write_together, self._write, batch.held, name="recorder")
                deliver(batch.held, errors, self._fail)
                self._under_way = None
                if not batch.done.done():
                    batch.done.set_result(None)
        finally:
            for left in (self._under_way, self._next):
                if left is not None:
                    left.done.cancel()
            self._task = self._under_way = self._next = None
