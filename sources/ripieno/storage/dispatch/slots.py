"""The slots of one worker: how many runs its engine takes at once from each queue.

The engine of DBOS 3.4 has such a limit in a row of each queue, for all workers, and reads that row before each look. So
this changes what it reads.
"""

import contextlib
from collections.abc import Generator, Mapping
from typing import Any

import dbos
from dbos._sys_db import SystemDatabase


class Slots:
    """The numbers of runs, by the names of the queues, until ``close``: then no further run is taken."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        self._closed = False

    @contextlib.contextmanager
    def limiting(self) -> Generator[None, None, None]:
        """Limits what the engine of this process takes in the block. It is launched there: it looks at once."""
        read = SystemDatabase.get_queue

        def get_queue(system: SystemDatabase, *arguments: Any, **named: Any) -> dbos.Queue | None:
            queue = read(system, *arguments, **named)
            if queue is not None and queue.name in self._numbers:
                number = 0 if self._closed else self._numbers[queue.name]
                queue._worker_concurrency = number  # pyright: ignore[reportPrivateUsage]
            return queue

        SystemDatabase.get_queue = get_queue  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            SystemDatabase.get_queue = read  # type: ignore[method-assign]

    def close(self) -> None:
        """Ends the taking. A look that has begun may take a run still."""
        self._closed = True
