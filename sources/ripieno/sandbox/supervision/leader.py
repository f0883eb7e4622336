"""The keeper's child before it becomes the program, and the report of its failure."""

import errno
import os
from collections.abc import Callable

from ripieno.sandbox.supervision import linux
from ripieno.sandbox.supervision.wire import Failure, Order

#: The standard descriptors for the streams of an order: output, error and, if there is one, input.
_STANDARD = (1, 2, 0)


def start(
    order: Order, descriptors: list[int], settings: dict[str, object] | None, entered: frozenset[str]
) -> tuple[int, int | None]:
    """Starts a program in its own session; returns its number once the program runs.

    If that is bubblewrap, which starts another one, the second value is the descriptor from which its reports are read.

    ``descriptors`` came with the order, ``settings`` are those of its confinement, if any, and ``entered`` the
    namespaces that this process has entered for it. Errors: ``Failure``.
    """
    return (_spawn(order, descriptors), None) if settings is None else _fork(order, descriptors, settings, entered)


def _spawn(order: Order, descriptors: list[int]) -> int:
    """Starts an unconfined program with ``posix_spawn``, which is faster than a fork."""
    directory, *streams = descriptors
    try:
        os.fchdir(directory)
    except OSError as error:
        raise Failure.of("directory", error) from error
    actions = [(os.POSIX_SPAWN_DUP2, number, standard) for number, standard in zip(streams, _STANDARD, strict=False)]

    def execute(program: bytes) -> int:
        # Cheaper than a failing spawn.
        os.stat(program)
        return os.posix_spawn(program, order.argv, order.environment, file_actions=actions, setsid=True, setsigmask=())

    try:
        return _first(order.programs, execute)
    finally:
        os.chdir("/")


def _fork(
    order: Order, descriptors: list[int], settings: dict[str, object], entered: frozenset[str]
) -> tuple[int, int | None]:
    keeper = os.getpid()
    status: tuple[int, int] | None = None
    try:
        # It closes on exec.
        reading, writing = os.pipe()
        if settings.get("tier") == 2:
            status = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise Failure.of("process", error) from error
    if pid == 0:
        try:
            _become(order, descriptors, settings, entered, keeper, status=None if status is None else status[1])
        except Failure as failure:
            os.write(writing, failure.pack().encode(errors="replace")[:4096])
        finally:
            os._exit(127)
    os.close(writing)
    report = b""
    while data := os.read(reading, 4096):
        report += data
    os.close(reading)
    if report:
        os.waitpid(pid, 0)
        raise Failure.unpack(report.decode(errors="replace"))
    if status is None:
        return pid, None
    os.close(status[1])
    return pid, status[0]


def _become(
    order: Order,
    descriptors: list[int],
    settings: dict[str, object],
    entered: frozenset[str],
    keeper: int,
    *,
    status: int | None,
) -> None:
    linux.die_with_parent(keeper)
    os.setsid()
    directory, *streams = descriptors
    for number, standard in zip(streams, _STANDARD, strict=False):
        os.dup2(number, standard)
    try:
        _enter(order.directory, directory, in_mounts="mount" in entered)
    except OSError as error:
        raise Failure.of("directory", error) from error
    linux.hear_all()
    try:
        from ripieno.sandbox.confinement.apply import apply

        apply(settings)
        if status is not None:
            from ripieno.sandbox.confinement.settings import STATUS_DESCRIPTOR

            os.dup2(status, STATUS_DESCRIPTOR, inheritable=True)
    except BaseException as error:
        raise Failure.of("confinement", error) from error
    _first(order.programs, lambda program: os.execve(program, order.argv, order.environment))


def _enter(path: bytes, directory: int, *, in_mounts: bool) -> None:
    """Enters a directory that the application has opened, so that it cannot be exchanged."""
    os.fchdir(directory)
    if in_mounts:
        # A descriptor bypasses the mounts of a namespace that was entered later; a path does not.
        os.chdir(path)
        if not os.path.samestat(os.stat("."), os.fstat(directory)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _first(programs: list[bytes], execute: Callable[[bytes], int]) -> int:
    """Executes the first existing program. Errors: ``Failure``, with the first reason other than a missing file."""
    reason: OSError | None = None
    for program in programs:
        try:
            return execute(program)
        except OSError as error:
            if reason is None or isinstance(reason, FileNotFoundError | NotADirectoryError):
                reason = error
    raise Failure.of("program", reason or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
