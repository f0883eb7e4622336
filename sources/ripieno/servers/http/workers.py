"""Forks workers of one command, which all do the same; replaces those that are lost, and ends all of them together.

This runs inside of the application, before it has threads or a loop. Workers are forked, and no program is started
anew: what the command has read and imported is shared by all of them, and costs each one neither time nor memory; what
is secret goes through no argument and no variable.
"""

import contextlib
import dataclasses
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator

from ripieno.sandbox.supervision import linux

#: Seconds until a lost worker is replaced: at first, and at most while they keep getting lost.
_PAUSES = (0.1, 10.0)
#: Seconds after which a worker that is lost says nothing about the next one.
_SETTLED = 10.0
#: Seconds after a signal until it is told what is waited for.
NOTICED = 0.3
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_READY = b"1"


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A worker's end of what ties it to its parent: it ends with the parent, and can be read then."""

    parent: socket.socket

    def tell(self) -> None:
        """Says that this worker works."""
        with contextlib.suppress(OSError):
            self.parent.send(_READY)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Worker:
    pid: int
    tie: socket.socket
    began: float
    ready: bool = False


class Workers:
    """So many workers. ``complete`` is called when all work for the first time, ``lost`` with what happened to one.

    ``ending`` is called when some have not ended soon after a signal.

    ``listener`` is what they serve; at the end it is closed here first, so that nobody new is let in. ``grace`` are
    the seconds that workers have to end by themselves.
    """

    def __init__(
        self,
        count: int,
        listener: socket.socket,
        *,
        grace: float,
        complete: Callable[[], None],
        lost: Callable[[str], None],
        ending: Callable[[], None],
    ) -> None:
        self._count = count
        self._listener = listener
        self._grace = grace
        self._tell_complete = complete
        self._tell_lost = lost
        self._tell_ending = ending
        self._workers: dict[int, _Worker] = {}
        self._poll = select.poll()
        self._heard: list[int] = []
        self._completed = False
        #: What the parent gives when all are gone; None as long as they shall work.
        self._code: int | None = None
        #: When it is told that workers have yet to end.
        self._notice: float | None = None
        #: When workers that do not end are killed.
        self._deadline: float | None = None
        #: When the next lost one is replaced.
        self._next = 0.0
        self._pause = _PAUSES[0]

    def run(self) -> Place | int:
        """Returns in each worker, with its place; and in the parent when all are gone, with an exit code.

        That is 0 after a signal, 128 and its number after a second one that somebody had to be killed for, and the
        code of a worker that was lost before all worked. Errors: ``RuntimeError``
        where threads run, which no worker would have; ``OSError`` when there can be no process.
        """
        others = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
        if others:
            raise RuntimeError(f"Workers cannot be forked where threads run: {', '.join(others)}.")
        for stream in (sys.stdout, sys.stderr):
            # What waits in it would be written by each of them.
            stream.flush()
        gc.collect()
        # What is here now is shared with every worker, as long as nobody counts it.
        gc.freeze()
        with self._listening() as bell:
            outcome = self._supervise(bell)
        if isinstance(outcome, Place):
            # What came meanwhile is for the handlers that a worker has now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        return outcome

    @contextlib.contextmanager
    def _listening(self) -> Generator[int, None, None]:
        """Notes signals; gives what can be read when there was one."""
        reading, writing = os.pipe()
        for number in (reading, writing):
            os.set_blocking(number, False)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        # What the caller ignores (nohup, background jobs of a script) stays ignored.
        heeded = [one for one in _ENDINGS if signal.getsignal(one) is not signal.SIG_IGN]
        before = {one: signal.signal(one, self._note) for one in (*heeded, signal.SIGCHLD)}
        try:
            yield reading
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(reading)
            os.close(writing)

    def _note(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._heard.append(number)

    def _supervise(self, bell: int) -> Place | int:
        self._poll.register(bell, select.POLLIN)
        while True:
            while self._is_lacking():
                place = self._fork()
                if place is not None:
                    return place
            if self._code is not None and not self._workers:
                return self._code
            ready = self._poll.poll(self._patience())
            if any(number == bell for number, _ in ready):
                with contextlib.suppress(BlockingIOError):
                    os.read(bell, 4096)
            self._read({number for number, _ in ready})
            self._reap()
            self._obey()

    def _is_lacking(self) -> bool:
        """Whether one is to be started now. The first is, alone: what is wrong with all of them is said once."""
        if self._code is not None or len(self._workers) >= self._count or time.monotonic() < self._next:
            return False
        return self._completed or not self._workers or any(one.ready for one in self._workers.values())

    def _fork(self) -> Place | None:
        """Starts a worker; its place in the worker itself."""
        parent = os.getpid()
        ours, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
            ours.close()
            theirs.close()
            if not self._completed:
                raise
            self._postpone(f"A worker could not be started: {error.strerror}.")
            return None
        if pid == 0:
            linux.die_with_parent(parent)
            # A terminal's Ctrl-C is for the parent, which tells the others.
            os.setsid()
            for one in (ours, *(worker.tie for worker in self._workers.values())):
                one.close()
            return Place(theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        theirs.close()
        self._workers[pid] = _Worker(pid=pid, tie=ours, began=time.monotonic())
        self._poll.register(ours, select.POLLIN)
        return None

    def _patience(self) -> float | None:
        """Milliseconds until something is to be done that nobody rings for."""
        times = [one for one in (self._notice, self._deadline) if one is not None]
        if self._code is None and len(self._workers) < self._count and time.monotonic() < self._next:
            times.append(self._next)
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _read(self, numbers: set[int]) -> None:
        """Hears of workers that work."""
        for worker in self._workers.values():
            if worker.tie.fileno() not in numbers:
                continue
            worker.ready = worker.tie.recv(64) != b"" or worker.ready
            # Whatever comes after that is its end, which is rung for.
            self._poll.unregister(worker.tie)
        if not self._completed and sum(one.ready for one in self._workers.values()) == self._count:
            self._completed = True
            self._tell_complete()

    def _reap(self) -> None:
        for worker in list(self._workers.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid == 0:
                continue
            del self._workers[pid]
            with contextlib.suppress(KeyError):
                self._poll.unregister(worker.tie)
            worker.tie.close()
            if self._code is None:
                self._miss(worker, os.waitstatus_to_exitcode(status))

    def _miss(self, worker: _Worker, code: int) -> None:
        """A worker is gone that should not be."""
        if not self._completed:
            self._end(code if code > 0 else 1)
            return
        if time.monotonic() - worker.began >= _SETTLED:
            self._pause = _PAUSES[0]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._postpone(f"A worker (process {worker.pid}) {how}.")

    def _postpone(self, reason: str) -> None:
        self._tell_lost(f"{reason} Another one starts in {self._pause:g} s.")
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _PAUSES[1])

    def _obey(self) -> None:
        """Does what signals say: the first ends all workers, the next one at once; and so does the end of the grace."""
        heard, self._heard = self._heard, []
        if heard and self._code is None:
            self._end(0)
            self._notice = time.monotonic() + NOTICED
        elif heard or (self._deadline is not None and time.monotonic() >= self._deadline):
            if heard and self._workers:
                self._code = 128 + heard[-1]
            self._signal(signal.SIGKILL)
            self._deadline = self._notice = None
        elif self._notice is not None and self._workers and time.monotonic() >= self._notice:
            self._notice = None
            self._tell_ending()

    def _end(self, code: int) -> None:
        self._code = code
        self._listener.close()
        self._deadline = time.monotonic() + self._grace
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for pid in self._workers:
            # Whoever is dead keeps the number until it is waited for.
            os.kill(pid, number)
