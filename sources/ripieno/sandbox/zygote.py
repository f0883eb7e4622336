"""The application's side of its zygote: starts it, sends it channels, and keeps spare keepers ready.

The zygote is started with the first process, and again when it is gone, when this program was forked, and when it has
become another user. It is not a child of this program. Limits, niceness and umask of children are those of that time.
"""

import atexit
import contextlib
import os
import pathlib
import select
import signal
import socket
import sys
import threading
import weakref

from ripieno.sandbox.supervision.wire import BARE, CONFINED, Prepare, send_with
from ripieno.values import Value

_LAUNCHER = pathlib.Path(__file__).parent / "supervision" / "launcher.py"
#: Attempts to start a zygote that ends at once.
_ATTEMPTS = 3
#: Spare keepers, each for one of the last used confinements. Most calls use one of three: no confinement, a workspace
#: that is read, and one that is written.
_READY = 3
#: Prevents a SIGPIPE in the application.
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
#: An open one keeps a process alive, so a forked child closes them.
_held: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class _Zygote(Value, kw_only=True):
    """A zygote. ``identity`` is this program's user and groups when it was started."""

    pid: int
    socket: socket.socket
    identity: object

    @property
    def usable(self) -> bool:
        """Whether it lives, and has this program's present rights."""
        return self.identity == _identity() and _is_open(self.socket)


class Zygotes:
    """The one zygote of this program, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        #: By their settings, the last used one last.
        self._spares: dict[bytes, socket.socket] = {}
        self._kind = BARE

    def take(self, settings: bytes) -> socket.socket:
        """A channel to a keeper for a confinement with these settings; empty for none.

        Errors: ``BlockingIOError`` when the zygote's queue is full, other ``OSError`` when there can be no zygote.
        """
        with self._lock:
            if self._zygote is not None and not self._zygote.usable:
                self._drop()
            if settings:
                self._kind = CONFINED
            spare = self._spares.pop(settings, None)
            return self._hand_over() if spare is None else spare

    def prepare(self, settings: bytes) -> None:
        """Prepares a keeper for the next process with these settings, which then starts sooner.

        A failure recurs there.
        """
        with self._lock, contextlib.suppress(OSError):
            if settings in self._spares:
                self._spares[settings] = self._spares.pop(settings)
                return
            while len(self._spares) >= _READY:
                _discard(self._spares.pop(next(iter(self._spares))))
            self._spares[settings] = spare = self._hand_over()
            if settings:
                spare.send(Prepare(settings).pack(), NO_SIGNAL)

    def drop(self) -> None:
        """Lets the zygote end, even a stopped one. Its forks continue."""
        with self._lock:
            if self._zygote is not None and self._zygote.usable:
                with contextlib.suppress(OSError):
                    os.kill(self._zygote.pid, signal.SIGCONT)
            self._drop()

    def forget(self) -> None:
        """Drops the parent's state in a forked child."""
        self._lock = threading.Lock()
        for one in list(_held):
            one.close()
        self._zygote = None
        self._spares.clear()

    def _hand_over(self) -> socket.socket:
        for _ in range(_ATTEMPTS):
            if self._zygote is None:
                self._zygote = _launch()
            ours, theirs = _pair()
            with theirs:
                try:
                    send_with(self._zygote.socket, self._kind, [theirs.fileno()], NO_SIGNAL)
                except (BrokenPipeError, ConnectionResetError):
                    ours.close()
                    self._drop()
                except BaseException:
                    ours.close()
                    raise
                else:
                    ours.setblocking(False)
                    return ours
        raise BrokenPipeError(32, f"its supervisor ended {_ATTEMPTS} times in a row")

    def _drop(self) -> None:
        while self._spares:
            _discard(self._spares.popitem()[1])
        if self._zygote is not None:
            self._zygote.socket.close()
        self._zygote = None


def _identity() -> object:
    """This program's user and groups: a process must not have the rights of an earlier identity."""
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


def signal_keeper(keeper: int, channel: socket.socket, number: int) -> None:
    """Signals the keeper of a channel, if it lives."""
    with contextlib.suppress(OSError, ValueError):
        if not hasattr(os, "pidfd_open"):
            os.kill(keeper, number)
            return
        descriptor = os.pidfd_open(keeper)
        try:
            # If the channel is open now, the keeper lived when the descriptor was opened, and its number was its own.
            if _is_open(channel):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _is_open(channel: socket.socket) -> bool:
    """Whether the other side lives, also when it has sent what is not read yet."""
    waiting = select.poll()
    waiting.register(channel, 0)
    return not waiting.poll(0)


def _discard(spare: socket.socket) -> None:
    """Ends a keeper without an order, even a stopped one."""
    with contextlib.suppress(OSError, ValueError):
        first, *_ = spare.recv(64, socket.MSG_DONTWAIT).split(b"\n")
        signal_keeper(int(first.removeprefix(b"keeper ")), spare, signal.SIGKILL)
    spare.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    _held.update(pair)
    return pair


def _launch() -> _Zygote:
    """Starts a zygote. Errors: ``OSError``."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise OSError("there is no Python interpreter that could supervise it")
    import subprocess  # It is imported with the first process.

    ours, theirs = _pair()
    # No secrets of ours; but the interpreter itself may need its libraries.
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    argv = [sys.executable, "-I", "-S", "-X", "utf8", str(_LAUNCHER), str(theirs.fileno())]
    try:
        with theirs:
            # The launcher returns as soon as it has forked.
            completed = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                check=True,
            )
        pid = int(completed.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        ours.close()
        raise OSError(f"its supervisor could not be started ({error})") from error
    except BaseException:
        ours.close()
        raise
    # A stopped zygote must not block us.
    ours.setblocking(False)
    return _Zygote(pid=pid, socket=ours, identity=_identity())


ZYGOTES = Zygotes()
atexit.register(ZYGOTES.drop)
os.register_at_fork(after_in_child=ZYGOTES.forget)
