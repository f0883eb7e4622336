"""Counts the memory of all programs together, and the processes of each, several times a second.

The kernel's own limits are those of one process and of its private memory. This also counts what processes share, and
adds up the programs of an application, without rights that control groups need.
"""

import contextlib
import mmap
import os
import time

from ripieno.sandbox.supervision.descendants import Tree

#: Programs at once that are added up; a further one is counted alone.
_SHARES = 512
_BYTES = 8
#: Bytes that a program can fill in a second, more than was measured.
_SPEED = 4 * 2**30
#: Seconds between two looks.
_SOONEST, _LATEST = 0.05, 0.5
#: The part of its time that looking may take.
_EFFORT = 0.05
#: Pages that several processes share are counted once where a program uses more than this part of the limit.
_COARSE = 16


class Shares:
    """The bytes that each program uses, in memory that a zygote and all its keepers share."""

    def __init__(self) -> None:
        self.table = memoryview(mmap.mmap(-1, _SHARES * _BYTES)).cast("Q")
        self._free = list(range(_SHARES))
        self._taken: dict[int, int] = {}

    def next(self) -> int | None:
        """The share of the next keeper; None when all are taken."""
        return self._free[-1] if self._free else None

    def take(self, keeper: int) -> None:
        """Gives that share to a keeper."""
        if self._free:
            self._taken[keeper] = self._free.pop()

    def give_back(self, keeper: int) -> None:
        """Frees the share of a keeper that has ended."""
        share = self._taken.pop(keeper, None)
        if share is not None:
            self.table[share] = 0
            self._free.append(share)


class Usage:
    """The usage of one program with all its descendants, compared with the limits."""

    def __init__(self, proc: int, shares: Shares, memory: int | None, processes: int | None) -> None:
        """``proc`` is a descriptor of /proc, whose numbers need not be ours; ``memory`` is in bytes."""
        self._proc = proc
        self._tree = Tree(proc, own=int(os.readlink("self", dir_fd=proc)))
        self._table = shares.table
        self._share = shares.next()
        self._memory = memory
        self._processes = processes
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._next = time.monotonic() + _SOONEST

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._next - time.monotonic())

    def excess(self) -> str:
        """The kind, the number and the limit of an excess; empty if there is none, or the next look is not due."""
        began = time.monotonic()
        if began < self._next:
            return ""
        pids = [pid for pid, _ in self._tree.walk()]
        if self._processes is not None and len(pids) > self._processes:
            return f"processes {len(pids)} {self._processes}"
        pause = _LATEST
        if self._memory is not None:
            used, together = self._count(pids, self._memory)
            # The largest of several is ended.
            if together > self._memory and used >= max(self._table):
                return f"memory {together} {self._memory}"
            pause = min(pause, (self._memory - together) / _SPEED)
        now = time.monotonic()
        self._next = now + max(pause, _SOONEST, (now - began) / _EFFORT)
        return ""

    def _count(self, pids: list[int], limit: int) -> tuple[int, int]:
        """The bytes of this program, and those of all together."""
        used = sum(map(self._resident, pids))
        if used > limit // _COARSE:
            used = sum(map(self._proportional, pids))
        if self._share is None:
            return used, used + sum(self._table)
        self._table[self._share] = used
        return used, sum(self._table)

    def _resident(self, pid: int) -> int:
        """The bytes of a process in memory, with all that it shares; 0 if it has ended."""
        try:
            return int(self._read(f"{pid}/statm").split()[1]) * self._page
        except (OSError, IndexError):
            return 0

    def _proportional(self, pid: int) -> int:
        """Its bytes in memory without files, and only its part of those that it shares."""
        with contextlib.suppress(OSError, ValueError):
            lines = (line.split() for line in self._read(f"{pid}/smaps_rollup").splitlines())
            return sum(int(line[1]) * 1024 for line in lines if line[0] in (b"Pss_Anon:", b"Pss_Shmem:"))
        return self._resident(pid)  # It cannot be inspected.

    def _read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        try:
            return os.read(descriptor, 65536)
        finally:
            os.close(descriptor)
