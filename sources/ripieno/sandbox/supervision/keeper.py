"""Starts one process, reports its end, and leaves none of its descendants running.

Its lifeline is the channel to the application: when that closes, all are killed at once.

It reports, one line each: ``kept``, when it has an order; ``started PID`` (0: the number that comes with the line, from
a namespace of process numbers) or ``failed WHAT ERRNO TEXT``;
``exceeded WHAT NUMBER LIMIT``, when it kills all because they use too much; ``unstarted``, if bubblewrap ran and could
not start the program; ``ended CODE`` as soon as the process has ended; and ``gone COUNT`` when none is left. COUNT is
the number of processes killed beside it.
"""

import contextlib
import os
import select
import signal
import time
from _socket import socket

from ripieno.sandbox.supervision import leader, linux
from ripieno.sandbox.supervision.descendants import Group, Namespace, Tree
from ripieno.sandbox.supervision.usage import Shares, Usage
from ripieno.sandbox.supervision.wire import Failure, Inbox, Order, Prepare, Signal, Terminate, send_number

#: Generations between bubblewrap, which a signal would only end, and its program.
_GENERATIONS = 2
#: Seconds between two strikes, growing to the second value for processes that do not die.
_PAUSES = (0.001, 0.25)
#: The limits of all descendants together.
_COUNTED = ("memory", "processes")


def keep(channel: socket, proc: int | None, shares: Shares) -> None:
    """Serves one process until none of its descendants is left. ``proc`` is a descriptor of /proc."""
    linux.adopt_orphans()
    inbox = Inbox(channel)
    try:
        preparation = _Preparation(channel, inbox)
        order = preparation.wait()
        if order is None:
            return
        _report(channel, "kept")
        if not preparation.enter(order.settings):
            return
        bell = linux.Bell()
        pid, status = leader.start(order, inbox.descriptors, preparation.complete(order), preparation.entered)
    except Failure as failure:
        _report(channel, f"failed {failure.pack()}")
        return
    if "pid" in preparation.entered:
        with contextlib.suppress(OSError):
            send_number(channel, b"started 0\n", pid)
    else:
        _report(channel, f"started {pid}")
    for descriptor in inbox.descriptors:
        os.close(descriptor)
    if "pid" in preparation.entered:
        beneath: Tree | Namespace | Group = Namespace()
    elif proc is not None:
        beneath = Tree(proc)
    else:
        beneath = Group(pid)
    channel.setblocking(False)
    _Watch(channel, inbox, bell, pid, beneath, usage=preparation.usage(proc, shares), status=status).run()


class _Preparation:
    """The namespaces that this process has entered for a program, perhaps before it has an order."""

    def __init__(self, channel: socket, inbox: Inbox) -> None:
        self._channel = channel
        self._inbox = inbox
        self._text = b""
        self.settings: dict[str, object] | None = None
        self.entered: frozenset[str] = frozenset()

    def wait(self) -> Order | None:
        """The order; None when there will be none, or another process waits for it now."""
        while (requests := self._inbox.receive()) is not None:
            for request in requests:
                if isinstance(request, Order):
                    # The application has closed the channel after the order.
                    return None if self._inbox.ended else request
                if not isinstance(request, Prepare) or not self._prepare(request):
                    return None
        return None

    def _prepare(self, request: Prepare) -> bool:
        # A failure before an order recurs and is reported with the order, or was transient.
        try:
            return self.enter(request.settings)
        except Failure:
            return False

    def enter(self, text: bytes) -> bool:
        """Enters a confinement's namespaces and does its early steps, unless they are done.

        False when another process continues. Errors: ``Failure``.
        """
        if text == self._text:
            return True
        import json

        try:
            from ripieno.sandbox.confinement.apply import get_ready
            from ripieno.sandbox.confinement.namespaces import enter

            settings: dict[str, object] = json.loads(text)
            self.entered = enter(settings)
        except BaseException as error:
            raise Failure.of("confinement", error) from error
        self._text, self.settings = text, settings
        if "pid" in self.entered and not _become_first(self._channel, self._inbox.descriptors):
            return False
        try:
            get_ready(settings)
        except BaseException as error:
            raise Failure.of("confinement", error) from error
        return True

    def usage(self, proc: int | None, shares: Shares) -> Usage | None:
        """The usage of the program; None without limits, or where it cannot be counted."""
        memory, processes = (None if self.settings is None else self.settings.get(name) for name in _COUNTED)
        memory, processes = (one if isinstance(one, int) else None for one in (memory, processes))
        return None if proc is None or memory is processes is None else Usage(proc, shares, memory, processes)

    def complete(self, order: Order) -> dict[str, object] | None:
        """The settings with those of the order alone; None for no confinement."""
        if self.settings is None:
            return None
        import json

        return {**self.settings, "writable": json.loads(order.writable)}


def _become_first(channel: socket, descriptors: list[int]) -> bool:
    """Becomes the first process of the namespace, whose death ends all others; False in its parent, after that."""
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise Failure.of("process", error) from error
    if pid == 0:
        # The parent has no number inside the namespace.
        linux.die_with_parent(0 if os.getpid() == 1 else parent)
        return True
    channel.close()
    for descriptor in descriptors:
        os.close(descriptor)
    while os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
        os.kill(pid, signal.SIGCONT)
    return False


def _report(channel: socket, line: str) -> None:
    # The application may be gone.
    with contextlib.suppress(OSError):
        channel.sendall(f"{line}\n".encode())


class _Watch:
    """The time from the start of a process until none of its descendants is left."""

    def __init__(
        self,
        channel: socket,
        inbox: Inbox,
        bell: linux.Bell,
        pid: int,
        beneath: Tree | Namespace | Group,
        *,
        usage: Usage | None,
        status: int | None,
    ) -> None:
        self._channel = channel
        self._inbox = inbox
        self._bell = bell
        self._leader = pid
        self._beneath = beneath
        self._usage = usage
        self._status = status
        self._wrapped = status is not None
        self._ended = False
        self._abandoned = False
        self._exceeded = False
        self._deadline: float | None = None
        self._killed = 0
        self._poll = select.poll()
        self._poll.register(bell.descriptor, select.POLLIN)
        self._poll.register(channel, select.POLLIN)

    def run(self) -> None:
        """Returns when none is left; waits for those that cannot be killed."""
        pause, longest = _PAUSES
        while True:
            over = self._over()
            childless = self._reap(counting=over)
            if childless and self._beneath.complete:
                break
            if not over:
                if not self._exceeds():
                    self._wait(self._rest())
                continue
            struck = self._beneath.strike()
            if self._ended and not struck and not self._beneath.complete:
                break
            self._wait(pause)
            pause = min(2 * pause, longest)
        _report(self._channel, f"gone {self._killed}")

    def _over(self) -> bool:
        if self._abandoned or self._exceeded:
            return True
        return self._deadline is not None and (self._ended or time.monotonic() >= self._deadline)

    def _exceeds(self) -> bool:
        """Whether a limit is exceeded, which is reported once."""
        excess = "" if self._usage is None else self._usage.excess()
        if excess:
            self._exceeded = True
            _report(self._channel, f"exceeded {excess}")
        return self._exceeded

    def _rest(self) -> float | None:
        """Seconds until the deadline or the next look at the usage; None for neither."""
        pauses = [] if self._deadline is None else [max(0.0, self._deadline - time.monotonic())]
        return min([*pauses, *([] if self._usage is None else [self._usage.pause])], default=None)

    def _reap(self, *, counting: bool) -> bool:
        """Waits for all ended children; whether none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._leader:
                self._ended = True
                if self._is_unstarted(status):
                    _report(self._channel, "unstarted")
                _report(self._channel, f"ended {os.waitstatus_to_exitcode(status)}")
            # Behind bubblewrap, this is its own init: the kernel ends the namespace with the program, also when nothing
            # was left running (measured).
            elif counting and not self._wrapped and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                self._killed += 1

    def _is_unstarted(self, status: int) -> bool:
        """Whether bubblewrap has failed before its program began: of one that it has started, it reports the end."""
        if self._status is None or os.waitstatus_to_exitcode(status) != 1:
            return False
        # All of its reports are there. It is not waited for whatever else may hold the other end.
        os.set_blocking(self._status, False)
        with contextlib.suppress(BlockingIOError):
            return b'"exit-code"' not in os.read(self._status, 65536)
        return True

    def _wait(self, seconds: float | None) -> None:
        """Waits for a child, the application or the time, and handles the application's requests."""
        ready = dict(self._poll.poll(None if seconds is None else seconds * 1000))
        if self._bell.descriptor in ready:
            self._bell.hush()
        if self._channel.fileno() not in ready:
            return
        requests = self._inbox.receive()
        if requests is None:
            self._abandoned = True
            self._poll.unregister(self._channel)
            return
        for request in requests:
            if isinstance(request, Terminate):
                self._deadline = time.monotonic() + request.grace
                self._signal(signal.SIGTERM)
            elif isinstance(request, Signal):
                self._signal(request.number)

    def _signal(self, number: int) -> None:
        # Its number is not reused before it was waited for. A process of another user cannot be signalled.
        if self._ended:
            return
        reached = False
        if self._wrapped and isinstance(self._beneath, Tree):
            reached = self._beneath.signal_behind(self._leader, _GENERATIONS, number)
        if not reached:
            with contextlib.suppress(OSError):
                os.killpg(self._leader, number)
