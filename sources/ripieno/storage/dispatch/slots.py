"""The slots of one worker: how many runs its engine takes at once from each queue.

The engine of DBOS 3.4 has such a limit in a row of each queue, for all workers, and reads that row before each look. So
this changes what it reads.
"""

from collections.abc import Mapping

import dbos

#: The limit in the row, which counts for a look before ``limit`` is called.
FIRST = 1


class Slots:
    """The numbers of runs, by the names of the queues, until ``close``: then no further run is taken."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        self._closed = False

    def limit(self, engine: dbos.DBOS) -> None:
        """Limits what a launched engine takes."""
        system = engine._sys_db
        read = system.get_queue

        def get_queue(name: str) -> dbos.Queue | None:
            queue = read(name)
            if queue is not None and name in self._numbers:
                queue._worker_concurrency = 0 if self._closed else self._numbers[name]
            return queue

        system.get_queue = get_queue  # type: ignore[method-assign, assignment]

    def close(self) -> None:
        """Ends the taking. A look that has begun may take a run still."""
        self._closed = True
