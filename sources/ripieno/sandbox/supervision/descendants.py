"""Finding, stopping and killing all descendants of a process.

A process that adopts orphans (``linux.adopt_orphans``) keeps all its descendants beneath it, regardless of sessions,
groups, double forks and environments. They are read from /proc, and ``wait`` reports when none is left. Unrelated
processes are never signalled: the number of a child that was not waited for cannot be reused, and a deeper descendant
is signalled through a descriptor, after a check of its parent.
"""

import contextlib
import os
import signal
from collections.abc import Container, Iterator

#: Scans for new descendants before the kill, which includes later ones.
_ROUNDS = 10


class Tree:
    """The descendants of this process, on Linux. There are none when there is nothing to wait for."""

    complete = True

    def __init__(self, proc: int, own: int | None = None) -> None:
        """``proc`` is a descriptor of /proc, because a confinement may hide it, and ``own`` our number there."""
        self._proc = proc
        self._own = own or os.getpid()
        self._known: set[int] = set()
        self._scans = not os.access(f"self/task/{self._own}/children", os.F_OK, dir_fd=proc)

    def strike(self, spare: Container[int] = ()) -> bool:
        """Stops all descendants, then kills them; whether there were any.

        A process that was forking may need another call. ``spare`` are children of this process that stay.
        """
        seen: set[int] = set()
        for _ in range(_ROUNDS):
            before = len(seen)
            for pid, parent in self.walk(spare):
                if pid not in seen:
                    seen.add(pid)
                    self._signal(pid, parent, signal.SIGSTOP)
            if len(seen) == before:
                break
        for pid, parent in self.walk(spare):
            seen.add(pid)
            self._signal(pid, parent, signal.SIGKILL)
        return bool(seen)

    def signal_behind(self, pid: int, generations: int, number: int) -> bool:
        """Signals the group of the first descendant ``generations`` beneath a child; whether there is one.

        The processes between are not signalled, even in the same group.
        """
        descendants = list(self.walk())
        between: list[int] = []
        for _ in range(generations):
            between.append(pid)
            pid = next((one for one, parent in descendants if parent == pid), 0)
        group = self._group(pid) if pid else 0
        for one, parent in descendants:
            if group and one not in between and self._group(one) == group:
                self._signal(one, parent, number)
        return group != 0

    def walk(self, spare: Container[int] = ()) -> Iterator[tuple[int, int]]:
        """All descendants with their parents: parents first, and no child before its parent was handled."""
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
        return self._stat(pid, 1)

    def _group(self, pid: int) -> int:
        return self._stat(pid, 2)

    def _stat(self, pid: int, place: int) -> int:
        """A number from /proc/PID/stat, after the process name (any characters): state, parent, group."""
        try:
            return int(self._read(f"{pid}/stat").rpartition(b")")[2].split()[place])
        except (OSError, IndexError):
            return 0

    def _signal(self, pid: int, parent: int, number: int) -> None:
        # A process of another user cannot be signalled, and an ended one need not be.
        with contextlib.suppress(OSError):
            if parent == self._own:
                os.kill(pid, number)
                return
            # Without pidfds, it becomes our child when its parent is dead.
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
    """The processes of the namespace whose first process this is; the kernel signals them all at once."""

    complete = True

    def strike(self, spare: Container[int] = ()) -> bool:  # noqa: ARG002
        """Stops and kills all processes but this one; whether there were any."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
            os.kill(-1, signal.SIGKILL)
            return True
        return False


class Group:
    """The group of one process, where nothing better is available: a process that leaves it is lost."""

    complete = False

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def strike(self, spare: Container[int] = ()) -> bool:  # noqa: ARG002
        """Kills the group; whether there was one."""
        try:
            os.killpg(self._leader, signal.SIGKILL)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS, for a group of zombies.
            return False
        return True


def open_proc() -> int | None:
    """A descriptor of /proc; None where it is missing or of another process namespace."""
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
