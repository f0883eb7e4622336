"""Finds, stops and kills everything that a process has started, whatever it did to be lost.

A process that adopts orphans (``system.adopt_orphans``) keeps all that it started beneath it: sessions, groups, double
forks and environments change nothing. What is beneath it is read from /proc, and ``wait`` says when nothing is left.
Strangers are never signalled: the number of a child that was not waited for cannot be used again, and anybody deeper
is signalled through a descriptor, after a look at whose child it is.
"""

import contextlib
import os
import signal
from collections.abc import Container, Iterator

#: How often what is beneath is looked at until nobody new is found; whoever forks on is killed all the same.
_ROUNDS = 10


class Tree:
    """What is beneath this process, on Linux. It is known to be empty when there is nothing to wait for."""

    complete = True

    def __init__(self, proc: int) -> None:
        """``proc`` is a descriptor of /proc, because a confinement may hide it."""
        self._proc = proc
        self._own = os.getpid()
        self._known: set[int] = set()
        self._scans = not _exists(f"self/task/{self._own}/children", proc)

    def strike(self, spare: Container[int] = ()) -> bool:
        """Stops everything, so that nothing is started meanwhile, then kills it; whether there was anything.

        One blow: who was forking may need another. ``spare`` are children of this process that stay.
        """
        met: set[int] = set()
        for _ in range(_ROUNDS):
            before = len(met)
            for pid, parent in self._walk(spare):
                if pid not in met:
                    met.add(pid)
                    self._signal(pid, parent, signal.SIGSTOP)
            if len(met) == before:
                break
        for pid, parent in self._walk(spare):
            met.add(pid)
            self._signal(pid, parent, signal.SIGKILL)
        return bool(met)

    def signal_behind(self, pid: int, generations: int, number: int) -> bool:
        """Signals who is so far beneath a child, by the first of each, and its group; whether there is anybody.

        Those between are not signalled, of the same group or not.
        """
        everybody = list(self._walk(()))
        between: list[int] = []
        for _ in range(generations):
            between.append(pid)
            pid = next((one for one, parent in everybody if parent == pid), 0)
        group = self._group(pid) if pid else 0
        for one, parent in everybody:
            if group and one not in between and self._group(one) == group:
                self._signal(one, parent, number)
        return group != 0

    def _walk(self, spare: Container[int]) -> Iterator[tuple[int, int]]:
        """Everybody, with the parent: parents first, and nobody's children before it was dealt with."""
        scanned = self._scan() if self._scans else None
        self._known = {self._own}
        pending = [self._own]
        while pending:
            parent = pending.pop()
            for pid in self._children(parent) if scanned is None else scanned.get(parent, ()):
                if pid not in self._known and pid not in spare:
                    self._known.add(pid)
                    yield pid, parent
                    pending.append(pid)

    def _children(self, pid: int) -> list[int]:
        """The children of all threads of a process."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            threads = [str(pid)] if pid == self._own else self._list(f"{pid}/task")
            for thread in threads:
                found += map(int, self._read(f"{pid}/task/{thread}/children").split())
        return found

    def _scan(self) -> dict[int, list[int]]:
        """All children of all processes, for kernels that do not list them."""
        children: dict[int, list[int]] = {}
        for name in self._list("."):
            if name.isdigit():
                children.setdefault(self._parent(int(name)), []).append(int(name))
        return children

    def _parent(self, pid: int) -> int:
        return self._told(pid, 1)

    def _group(self, pid: int) -> int:
        return self._told(pid, 2)

    def _told(self, pid: int, place: int) -> int:
        """What is told of a process after its name, which may hold anything, parentheses too: state, parent, group."""
        try:
            return int(self._read(f"{pid}/stat").rpartition(b")")[2].split()[place])
        except (OSError, IndexError):
            return 0

    def _signal(self, pid: int, parent: int, number: int) -> None:
        # Who runs as somebody else cannot be signalled, and who is gone need not be.
        with contextlib.suppress(OSError):
            if parent == self._own:
                os.kill(pid, number)
                return
            # Where there are no such descriptors, it comes to us when its parent is dead.
            descriptor = os.pidfd_open(pid)
            try:
                if self._parent(pid) in self._known:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def _list(self, path: str) -> list[str]:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._proc)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        try:
            data = os.read(descriptor, 65536)
            while more := os.read(descriptor, 65536):
                data += more
            return data
        finally:
            os.close(descriptor)


class Namespace:
    """What is in the namespace of processes whose first one this is: the kernel names it all at once."""

    complete = True

    def strike(self, spare: Container[int] = ()) -> bool:  # noqa: ARG002
        """Stops and kills everybody but this process; whether there was anybody."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
            os.kill(-1, signal.SIGKILL)
            return True
        return False


class Group:
    """The group of one process, where nothing better is to be had: who leaves it is lost."""

    complete = False

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def strike(self, spare: Container[int] = ()) -> bool:  # noqa: ARG002
        """Kills the group; whether there was one."""
        try:
            os.killpg(self._leader, signal.SIGKILL)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of a group of zombies.
            return False
        return True


def open_proc() -> int | None:
    """A descriptor of /proc; None where there is none, or one that numbers processes in another way than we do."""
    try:
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        if os.readlink("self", dir_fd=proc) == str(os.getpid()):
            return proc
    except OSError:
        pass
    os.close(proc)
    return None


def _exists(path: str, folder: int) -> bool:
    try:
        os.stat(path, dir_fd=folder)
    except OSError:
        return False
    return True
