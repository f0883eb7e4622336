"""The application's side of its zygote: starts it, hands channels to it, and has keepers ready for who comes next.

The zygote is started with the first process, and again when it is gone, when this program was forked, and when it has
become another user. It is no child of this program. What children inherit beside what they are given (limits,
niceness, the mask of new files) is as it was then.
"""

import atexit
import contextlib
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import weakref

from ripieno.sandbox.supervision.wire import BARE, CONFINED, Prepare, send_with

_LAUNCHER = pathlib.Path(__file__).parent / "supervision" / "launcher.py"
#: How often a zygote is started that is gone at once.
_ATTEMPTS = 3
#: Kinds of confinement, none being one, that a keeper is ready for: those that were wanted last. Most calls want one of
#: these: no confinement, a workspace that is read, and one that is written.
_READY = 3
#: A signal for a socket that nobody reads would be the application's.
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
#: Whoever holds these keeps a process alive, so a forked child closes them.
_held: weakref.WeakSet[socket.socket] = weakref.WeakSet()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Zygote:
    """``identity`` is who this program was when it started it."""

    pid: int
    socket: socket.socket
    identity: object

    @property
    def usable(self) -> bool:
        """Whether it lives, and has the rights that this program has now."""
        if self.identity != _identity():
            return False
        try:
            return self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


class Zygotes:
    """The one zygote of this program, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        #: By the settings that they are for; who was wanted last stands last.
        self._spares: dict[bytes, socket.socket] = {}
        self._kind = BARE

    def take(self, settings: bytes) -> socket.socket:
        """A channel whose keeper is there, or will be, for a confinement with these settings; empty for none.

        Errors: ``BlockingIOError`` when the zygote has too many before it, other ``OSError`` when there can be none.
        """
        with self._lock:
            if self._zygote is not None and not self._zygote.usable:
                self._drop()
            if settings:
                self._kind = CONFINED
            spare = self._spares.pop(settings, None)
            return self._hand_over() if spare is None else spare

    def prepare(self, settings: bytes) -> None:
        """Has a keeper ready for the next process whose confinement has these settings, which starts sooner then.

        What fails, fails there again.
        """
        with self._lock, contextlib.suppress(OSError):
            if settings in self._spares:
                self._spares[settings] = self._spares.pop(settings)
                return
            while len(self._spares) >= _READY:
                self._spares.pop(next(iter(self._spares))).close()
            self._spares[settings] = spare = self._hand_over()
            if settings:
                spare.send(Prepare(settings).pack(), NO_SIGNAL)

    def drop(self) -> None:
        """Lets the zygote end, also one that does not answer because it was stopped. What it has forked goes on."""
        with self._lock:
            if self._zygote is not None and self._zygote.usable:
                with contextlib.suppress(OSError):
                    os.kill(self._zygote.pid, signal.SIGCONT)
            self._drop()

    def forget(self) -> None:
        """In a forked child: all of this is the parent's."""
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
        raise BrokenPipeError(32, "its supervisor ends at once, again and again")

    def _drop(self) -> None:
        while self._spares:
            self._spares.popitem()[1].close()
        if self._zygote is not None:
            self._zygote.socket.close()
        self._zygote = None


def _identity() -> object:
    """Who this program is: a process must not have the rights of who it was."""
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


def _pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    _held.update(pair)
    return pair


def _launch() -> _Zygote:
    """Starts a zygote. Errors: ``OSError``."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise OSError("there is no Python interpreter that could supervise it")
    ours, theirs = _pair()
    # Nothing secret of ours; but the interpreter itself may need its libraries.
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    argv = [sys.executable, "-I", "-S", "-X", "utf8", str(_LAUNCHER), str(theirs.fileno())]
    try:
        with theirs:
            # It returns as soon as it has forked.
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
    # One that was stopped must not stop us.
    ours.setblocking(False)
    return _Zygote(pid=pid, socket=ours, identity=_identity())


ZYGOTES = Zygotes()
atexit.register(ZYGOTES.drop)
os.register_at_fork(after_in_child=ZYGOTES.forget)
