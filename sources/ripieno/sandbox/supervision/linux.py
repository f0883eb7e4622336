"""Linux process controls through prctl, signal masks, and notification of child changes."""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

LINUX = sys.platform == "linux"
_prctl = ctypes.CDLL(None).prctl if LINUX else None


def _set(option: int, value: int) -> None:
    if _prctl is not None:
        _prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def adopt_orphans() -> None:
    """Keeps all descendants beneath this process when their parents end. Linux only."""
    _set(_PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Prevents other processes of this user from inspecting this one and its forks."""
    _set(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Kills this process when its parent ends, or at once if it has ended."""
    _set(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def be_deaf() -> None:
    """Blocks all signals but SIGCHLD (SIGKILL and SIGSTOP cannot be blocked).

    Blocking also covers signals that Python or the application ignores, such as SIGHUP after nohup: a later program
    does not inherit that.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {signal.SIGCHLD})
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def hear_all() -> None:
    """Unblocks all signals for the program that follows."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Bell:
    """A descriptor that is readable when a child has ended or stopped. One for each process."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        for number in (self.descriptor, self._writing):
            os.set_blocking(number, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)

    def hush(self) -> None:
        """Resets it."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self.descriptor, 4096)) == 4096:
                pass

    def close(self) -> None:
        """Closes a parent's bell in a forked process."""
        signal.set_wakeup_fd(-1)
        os.close(self.descriptor)
        os.close(self._writing)


def _do_nothing(number: int, frame: object) -> None:
    """A handler, because an ignored signal would not ring, and the system would reap our children."""
