"""What Linux must be asked for by number, and how a process learns that a child of it has changed."""

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
    """Whatever is beneath this process stays beneath it when its parent ends. Linux only."""
    _set(_PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Other processes of this user cannot look into this one, or those that it forks."""
    _set(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Kills this process when its parent ends, also when that has happened already."""
    _set(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def be_deaf() -> None:
    """Takes no signal but that of a child; what cannot be blocked is SIGKILL and SIGSTOP.

    Blocked, those that Python ignores do no harm either, and a program that follows does not go on to ignore them. Nor
    does it ignore those that the application ignores, as one in the background of a shell, or after nohup, may do.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {signal.SIGCHLD})
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def hear_all() -> None:
    """Gives a program that follows every signal."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Bell:
    """Rings when a child has ended or stopped: its descriptor can be read. One for each process."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        for number in (self.descriptor, self._writing):
            os.set_blocking(number, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)

    def hush(self) -> None:
        """Lets it ring again."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self.descriptor, 4096)) == 4096:
                pass

    def close(self) -> None:
        """For a process that was forked, and has no use for its parent's."""
        signal.set_wakeup_fd(-1)
        os.close(self.descriptor)
        os.close(self._writing)


def _do_nothing(number: int, frame: object) -> None:
    """An ignored signal would not ring, and the system would wait for our children."""
