"""Running a program for a call: beneath the workspace, confined, bounded, and with its partial output at a timeout.

No shell sees an argv. The sandbox, if there is one, decides the environment, the access and the home of a program;
without one it gets the clean environment and our rights.
"""

import asyncio
import contextlib
import os
import shlex
from collections.abc import Generator, Mapping, Sequence

from ripieno.ensembles import Context, Surroundings
from ripieno.exceptions import InputError, PermissionFault, ResourceFault, ValidationFault
from ripieno.origins.command.changes import note_changes
from ripieno.origins.command.outcomes import MARK, late, stopped
from ripieno.sandbox import Process, ProcessLimits
from ripieno.sandbox.capture import Capture
from ripieno.sandbox.homes import HousedProcess
from ripieno.sandbox.processes import Completed, clean_environment, collect

#: Seconds in which a program must end after its call. A call waits two seconds for its tool, and the output so far must
#: be returned within them.
GRACE = 0.75
#: Seconds between two reports of progress.
_PAUSE = 0.5
#: Characters of a reported line, and bytes searched for it.
_LINE, _LOOK = 200, 1024
#: A timer may be early by the resolution of its clock, and late by a turn of the loop.
_EARLY = 0.05
_PASS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


async def run(
    context: Context,
    argv: Sequence[str],
    *,
    directory: str = ".",
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    write: bool = True,
    network: bool = False,
    readable: Sequence[str] = (),
    confined: bool = True,
    limits: ProcessLimits | None = None,
    command: str | None = None,
) -> Completed:
    """Runs a program to its end, and reports its last line as progress, at most twice a second.

    ``directory`` and all writable paths are beneath the workspace; with ``write`` false, none is writable. Without
    ``stdin`` standard input is empty. ``command`` is what the model gave, by default ``argv``. Processes left running
    are ended. Errors: those of ``launch``; ``TimeoutFault`` with the output so far at the call's deadline, and
    ``StoppedFault`` if the call is cancelled. Adds the changes of files to those of the call.
    """
    limits = limits or limits_of(context)
    loop = asyncio.get_running_loop()
    sandbox = surroundings_of(context).sandbox if confined else None
    began = loop.time()
    parts = frozenset[str]() if sandbox is None else sandbox.parts()
    async with note_changes(context, write=write), contextlib.AsyncExitStack() as stack:
        reporter = stack.enter_context(contextlib.closing(_Reporter(context)))
        captures = _Watched(limits.output_bytes, reporter), _Watched(limits.output_bytes, reporter)
        try:
            process = await launch(
                context,
                argv,
                directory=directory,
                environment=environment,
                pipe_stdin=stdin is not None,
                write=write,
                network=network,
                readable=readable,
                confined=confined,
                limits=limits,
            )
            async with process:
                completed = await collect(process, captures, stdin=stdin)
            return completed if sandbox is None else sandbox.look_after(completed, parts, directory)
        except asyncio.CancelledError:
            expired = context.deadline is not None and loop.time() >= context.deadline - _EARLY
            stdout, stderr = (one.captured() for one in captures)
            if not (stdout.total_bytes + stderr.total_bytes if context.cancelled else expired):
                raise
            note = "" if sandbox is None else sandbox.lost(parts)
            limit = context.invoker.policy.output
            if context.cancelled:
                raise stopped(command or shlex.join(argv), stdout, stderr, limit, note=note) from None
            seconds = context.timeout or loop.time() - began
            raise late(command or shlex.join(argv), seconds, stdout, stderr, limit, note=note) from None
        finally:
            if sandbox is not None:
                sandbox.withdraw()


async def launch(
    context: Context,
    argv: Sequence[str],
    *,
    directory: str = ".",
    environment: Mapping[str, str] | None = None,
    pipe_stdin: bool = False,
    write: bool = True,
    network: bool = False,
    readable: Sequence[str] = (),
    confined: bool = True,
    limits: ProcessLimits | None = None,
) -> Process:
    """Starts a process that the caller must end. Arguments as for ``run``; ``readable`` are further readable paths.

    Errors: ``PermissionFault`` for a directory outside the workspace, ``ResourceFault`` for a missing one and for a
    program that cannot be started, ``ValidationFault`` for impossible arguments or variables.
    """
    surroundings = surroundings_of(context)
    workspace = workspace_of(surroundings)
    limits = limits or limits_of(context)
    with entered(workspace, directory, surroundings.workspace) as place:
        sandbox = surroundings.sandbox
        context.sandbox = None if sandbox is None or not confined else sandbox.name
        if sandbox is None or not confined:
            variables = clean_environment(environment)
            return await surroundings.spawner.start(argv, variables, place, limits, pipe_stdin=pipe_stdin)
        with contextlib.ExitStack() as stack:
            stack.enter_context(sandbox.running())
            home = stack.enter_context(await sandbox.house(context.owner, context.conversation))
            process = await surroundings.spawner.start(
                argv,
                sandbox.environment(environment, home=home),
                place,
                limits,
                pipe_stdin=pipe_stdin,
                confinement=sandbox.confinement(
                    writable=(workspace,) if write else (),
                    readable=(workspace, *readable),
                    network=network,
                    home=home,
                ),
            )
            return HousedProcess(process, stack.pop_all().close)


def surroundings_of(context: Context) -> Surroundings:
    """The surroundings of a call. Errors: ``ResourceFault`` where a call has no workspace."""
    if context.surroundings is None:
        raise ResourceFault("No program can be run, because there is no workspace.", code="workspace")
    return context.surroundings


def check_code(context: Context, ensemble: str) -> None:
    """Errors: ``PermissionFault`` if code that the ensemble names is not as it was at start-up."""
    try:
        surroundings_of(context).named.check(ensemble)
    except InputError as error:
        raise PermissionFault(f"It was not started: {error}", code="code_changed") from None


def workspace_of(surroundings: Surroundings) -> str:
    """The true path of the workspace."""
    return os.path.realpath(surroundings.workspace)


def true_path(context: Context, path: str, *, start: str | None = None) -> str:
    """``resolve`` in the workspace of a call. Errors: ``ToolFault``."""
    surroundings = surroundings_of(context)
    return resolve(workspace_of(surroundings), path, os.fspath(surroundings.workspace), start=start)


def limits_of(context: Context, *, kept: bool = False) -> ProcessLimits:
    """Limits for as much of each stream as the result may have; with ``kept``, as much as is kept, if that is more."""
    output = context.invoker.policy.output
    return ProcessLimits(output_bytes=max((max(output, context.kept) if kept else output) - MARK, MARK), grace=GRACE)


@contextlib.contextmanager
def entered(workspace: str, directory: str, named: str | os.PathLike[str] | None = None) -> Generator[str, None, None]:
    """A path into a directory beneath the workspace that later renames and links cannot redirect.

    Links are followed as long as they stay beneath. ``named`` is another name of the workspace in absolute paths.
    Errors: ``ToolFault``.
    """
    descriptor = _open_beneath(workspace, directory, os.fspath(named or workspace))
    try:
        held = f"/proc/self/fd/{descriptor}"
        yield held if os.path.exists(held) else resolve(workspace, directory, os.fspath(named or workspace))
    finally:
        os.close(descriptor)


def resolve(workspace: str, path: str, named: str | None = None, *, start: str | None = None) -> str:
    """The true absolute path of something beneath a workspace, existing or not; relative ones start at ``start``.

    Errors: ``ToolFault``.
    """
    try:
        lexical = os.path.join(start or workspace, path)
        if named is not None and os.path.isabs(path):
            known = os.path.relpath(path, named)
            lexical = path if known.startswith("..") else os.path.join(workspace, known)
        true = os.path.realpath(lexical)
        os.fsencode(true)
    except ValueError as error:
        raise ValidationFault(f"{path!r} is not a valid path: {error}.", code="invalid_path") from error
    except OSError as error:
        # A link on the way was exchanged between two looks at it.
        message = f"{path!r} was changed while it was being used."
        raise ResourceFault(message, code="conflict", suggestion="Try again.") from error
    if true != workspace and not true.startswith(workspace.rstrip("/") + "/"):
        raise PermissionFault(
            f"{path!r} leads out of the workspace.",
            code="outside_workspace",
            suggestion="Use a path beneath the workspace, which is '.'.",
        )
    return true


def _open_beneath(workspace: str, directory: str, named: str) -> int:
    true = resolve(workspace, directory, named)
    descriptor = None
    try:
        descriptor = os.open(workspace, _PASS)
        for name in os.path.relpath(true, workspace).split("/"):
            # The path was resolved: a link in it now is new, and is not followed.
            inner = os.open(name, _PASS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException as error:
        if descriptor is not None:
            os.close(descriptor)
        if not isinstance(error, OSError):
            raise
        raise ResourceFault(
            f"The directory {directory!r} cannot be entered: {error.strerror}.",
            code="not_found" if isinstance(error, FileNotFoundError) else "not_a_directory",
            suggestion="Use a directory beneath the workspace, such as '.'.",
        ) from error
    return descriptor


class _Watched(Capture):
    __slots__ = ("_reporter",)

    def __init__(self, limit: int, reporter: "_Reporter") -> None:
        super().__init__(limit)
        self._reporter = reporter

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self._reporter.notice(data)


class _Reporter:
    """Reports the last line of the output, at most once per ``_PAUSE``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        # A program that ends earlier needs no progress report.
        self._next = self._loop.time() + _PAUSE
        self._timer: asyncio.TimerHandle | None = None
        self._recent = b""
        self._total = 0

    def notice(self, data: bytes) -> None:
        self._total += len(data)
        self._recent = (self._recent + data)[-_LOOK:] if len(data) < _LOOK else data[-_LOOK:]
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._next, self._loop.time()), self._report)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        self._timer = None
        self._next = self._loop.time() + _PAUSE
        lines = self._recent.decode(errors="replace").split("\n")
        line = next((one for one in reversed(lines) if one.strip()), "")
        shown = "".join(character if character.isprintable() else " " for character in line).strip()
        self._context.progress(self._total, None, shown[-_LINE:])
