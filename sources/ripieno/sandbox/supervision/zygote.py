"""Forks a keeper for each channel from the application, and kills the orphans of a killed keeper.

Its lifeline is the socket to the application. When that closes, it waits for its keepers, which have their own
lifelines, and ends.
"""

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
from _socket import socket

from ripieno.sandbox.supervision import linux
from ripieno.sandbox.supervision.descendants import Tree, open_proc
from ripieno.sandbox.supervision.keeper import keep
from ripieno.sandbox.supervision.usage import Shares
from ripieno.sandbox.supervision.wire import CONFINED, receive_with

#: Milliseconds between two strikes at orphans, growing to the second value for processes that do not die.
_PAUSES = (2, 250)


def serve(descriptor: int) -> None:
    """Serves the application on this socket descriptor until it and all its processes are gone."""
    linux.adopt_orphans()
    linux.hide()
    linux.be_deaf()
    # Memory is shared with every keeper as long as no garbage collection touches it.
    gc.disable()
    gc.freeze()
    _Zygote(socket(fileno=descriptor)).run()
    os._exit(0)


class _Zygote:
    def __init__(self, application: socket) -> None:
        self._application: socket | None = application
        self._bell = linux.Bell()
        self._proc = open_proc()
        self._tree = None if self._proc is None else Tree(self._proc)
        self._keepers: set[int] = set()
        self._shares = Shares()
        self._orphans = False
        self._poll = select.poll()
        self._poll.register(application, select.POLLIN)
        self._poll.register(self._bell.descriptor, select.POLLIN)

    def run(self) -> None:
        pause, longest = _PAUSES
        while not self._reap() or self._application is not None:
            if self._orphans and self._tree is not None:
                self._orphans = self._tree.strike(self._keepers)
            pause = min(2 * pause, longest) if self._orphans else _PAUSES[0]
            ready = dict(self._poll.poll(pause if self._orphans else None))
            if self._bell.descriptor in ready:
                self._bell.hush()
            if self._application is not None and self._application.fileno() in ready:
                self._receive(self._application)

    def _reap(self) -> bool:
        """Waits for all ended children; whether none is left. Continues a stopped keeper."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if os.WIFSTOPPED(status):
                if pid in self._keepers:
                    os.kill(pid, signal.SIGCONT)
            else:
                # A keeper that ended normally has left no orphans.
                self._orphans |= status != 0
                self._keepers.discard(pid)
                self._shares.give_back(pid)

    def _receive(self, application: socket) -> None:
        try:
            kind, descriptors = receive_with(application, 1)
        except OSError:
            kind, descriptors = b"", []
        if not kind:
            self._poll.unregister(application)
            application.close()
            self._application = None
        if kind == CONFINED:
            # Imported once for all keepers. A failure recurs there and is reported.
            with contextlib.suppress(Exception):
                importlib.import_module("json")
                importlib.import_module("ripieno.sandbox.confinement.apply").prepare()
        for descriptor in descriptors:
            channel = socket(fileno=descriptor)
            self._fork(channel)
            channel.close()

    def _fork(self, channel: socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            with contextlib.suppress(OSError):
                channel.sendall(f"failed process {error.errno or errno.EAGAIN} {error.strerror}\n".encode())
            return
        if pid:
            self._keepers.add(pid)
            self._shares.take(pid)
            # The keeper itself may be stopped before it can say so. It may also have ended already.
            with contextlib.suppress(OSError):
                channel.sendall(b"keeper %d\n" % pid)
            return
        try:
            if self._application is not None:
                self._application.close()
            self._bell.close()
            keep(channel, self._proc, self._shares)
            os._exit(0)
        finally:
            os._exit(1)
