"""Worker processes of one command: forks them, replaces lost ones, and ends them together.

Workers are forked before the application has threads or a loop. They share what the command has read and imported,
and secrets pass through no argument and no variable.
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

from ripieno.ensembles.threads import end_idle_threads
from ripieno.sandbox.supervision import linux
from ripieno.values import Value

#: Seconds until a lost worker is replaced: the first time, and at most when it recurs.
_PAUSES = (0.1, 10.0)
#: Seconds after which the loss of a worker counts as the first one again.
_SETTLED = 10.0
#: Seconds after a signal until the wait is reported.
NOTICED = 0.3
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_READY = b"1"


class Place(Value):
    """A worker's end of the socket to its parent. It becomes readable when the parent ends."""

    parent: socket.socket

    def tell(self) -> None:
        """Reports to the parent that this worker is ready."""
        with contextlib.suppress(OSError):
            self.parent.send(_READY)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Worker:
    pid: int
    tie: socket.socket
    began: float
    ready: bool = False


class Workers:
    """``count`` workers that serve ``listener``, and have ``grace`` seconds to end by themselves.

    ``complete`` is called when all are ready for the first time, ``lost`` with a message when one ends, and ``ending``
    when some have not ended soon after a signal. At the end, ``listener`` is closed first.
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
        self._signals: list[int] = []
        self._completed = False
        #: The parent's exit code, once workers must end.
        self._code: int | None = None
        #: When the wait for workers is reported.
        self._notice: float | None = None
        #: When remaining workers are killed.
        self._deadline: float | None = None
        #: When the next lost worker is replaced.
        self._next = 0.0
        self._pause = _PAUSES[0]

    def run(self) -> Place | int:
        """Returns a place in each worker, and an exit code in the parent when all have ended.

        The code is 0 after a signal, 128 and its number after a second signal that killed workers, and a worker's own
        code if it ended before all were ready. Errors: ``RuntimeError`` if threads run, which a fork would lose;
        ``OSError`` if no process can be started.
        """
        end_idle_threads()
        others = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
        if others:
            raise RuntimeError(f"Workers cannot be forked where threads run: {', '.join(others)}.")
        for stream in (sys.stdout, sys.stderr):
            # Otherwise each worker would write the buffered text.
            stream.flush()
        gc.collect()
        # Keeps the current objects in pages that all workers share.
        gc.freeze()
        with self._listening() as wakeup_reader:
            outcome = self._supervise(wakeup_reader)
        if isinstance(outcome, Place):
            # Pending signals go to the worker's own handlers.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        return outcome

    @contextlib.contextmanager
    def _listening(self) -> Generator[int, None, None]:
        """Records signals; yields a descriptor that is readable after one."""
        reading, writing = os.pipe()
        for number in (reading, writing):
            os.set_blocking(number, False)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        # Signals that the caller ignores (nohup, background jobs of a script) stay ignored.
        handled = [one for one in _ENDINGS if signal.getsignal(one) is not signal.SIG_IGN]
        before = {one: signal.signal(one, self._note) for one in (*handled, signal.SIGCHLD)}
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
            self._signals.append(number)

    def _supervise(self, wakeup_reader: int) -> Place | int:
        self._poll.register(wakeup_reader, select.POLLIN)
        while True:
            while self._is_lacking():
                place = self._fork()
                if place is not None:
                    return place
            if self._code is not None and not self._workers:
                return self._code
            ready = self._poll.poll(self._timeout())
            if any(number == wakeup_reader for number, _ in ready):
                with contextlib.suppress(BlockingIOError):
                    os.read(wakeup_reader, 4096)
            self._read({number for number, _ in ready})
            self._reap()
            self._handle_signals()

    def _is_lacking(self) -> bool:
        """Whether to start one now. The first starts alone, so that an error of all is reported once."""
        if self._code is not None or len(self._workers) >= self._count or time.monotonic() < self._next:
            return False
        return self._completed or not self._workers or any(one.ready for one in self._workers.values())

    def _fork(self) -> Place | None:
        """Starts a worker. Returns its place in the worker, and None in the parent."""
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
            # Ctrl-C of a terminal reaches only the parent, which signals the workers.
            os.setsid()
            for one in (ours, *(worker.tie for worker in self._workers.values())):
                one.close()
            return Place(theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        theirs.close()
        self._workers[pid] = _Worker(pid=pid, tie=ours, began=time.monotonic())
        self._poll.register(ours, select.POLLIN)
        return None

    def _timeout(self) -> float | None:
        """Milliseconds until the next action without a signal."""
        times = [one for one in (self._notice, self._deadline) if one is not None]
        if self._code is None and len(self._workers) < self._count and time.monotonic() < self._next:
            times.append(self._next)
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _read(self, numbers: set[int]) -> None:
        for worker in self._workers.values():
            if worker.tie.fileno() not in numbers:
                continue
            worker.ready = worker.tie.recv(64) != b"" or worker.ready
            # The socket's end needs no polling: SIGCHLD reports it.
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
                self._handle_loss(worker, os.waitstatus_to_exitcode(status))

    def _handle_loss(self, worker: _Worker, code: int) -> None:
        """Replaces a lost worker, or ends all if not all were ready yet."""
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

    def _handle_signals(self) -> None:
        """Ends all workers after the first signal. Kills them after the next one, or after the grace."""
        signals, self._signals = self._signals, []
        if signals and self._code is None:
            self._end(0)
            self._notice = time.monotonic() + NOTICED
        elif signals or (self._deadline is not None and time.monotonic() >= self._deadline):
            if signals and self._workers:
                self._code = 128 + signals[-1]
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
            # A dead process keeps its number until it is reaped.
            os.kill(pid, number)
