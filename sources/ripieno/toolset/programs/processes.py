"""The ensemble ``process``: programs that run on between calls, addressed only by the handles of ``spawn``."""

import asyncio
import shlex
import signal
from typing import Any

from ripieno.canisters.faults import Change
from ripieno.ensembles import Context, Outcome
from ripieno.exceptions import ConnectionFailure
from ripieno.origins.command.changes import begin_look, end_look, renew_look
from ripieno.origins.command.outcomes import ending, join, share, size_before
from ripieno.origins.command.programs import launch, limits_of
from ripieno.toolset.programs.jobs import Job, JobManager
from ripieno.toolset.programs.settings import changes_of

#: Bytes of a result reserved for the line before the output.
_MARK = 512


async def spawn(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Starts ``argv`` in the background; the result has its handle."""
    manager = _manager(context)
    owned = manager.jobs_of(context)
    owned.check_quota()
    argv = [str(word) for word in arguments["argv"]]
    variables = manager.check(arguments.get("env", {}))
    look = await begin_look(context)
    process = await launch(
        context,
        argv,
        directory=arguments.get("working_directory", "."),
        environment=variables,
        network=manager.network,
        limits=limits_of(context),
    )
    job = manager.add(owned, process, argv, look)
    return Outcome(
        content={"handle": job.handle, "state": "running", "command": argv},
        changes=(*changes_of(variables), Change.of("ProcessStarted", pid=process.pid, command=shlex.join(argv))),
    )


async def wait(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Waits for the end of a process, at most ``timeout_seconds``; returns the output since the last read."""
    job = _manager(context).jobs_of(context).access(arguments["handle"])
    seconds = float(arguments.get("timeout_seconds", 30))
    if context.deadline is not None:
        seconds = min(seconds, max(0.0, context.deadline - asyncio.get_running_loop().time() - 1))
    await asyncio.wait((job.task,), timeout=seconds)
    return await _read(context, job)


async def kill(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Ends a process with all its descendants."""
    job = _manager(context).jobs_of(context).access(arguments["handle"])
    await job.end()
    return await _read(context, job)


async def send_signal(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Sends a signal to a process and its group."""
    job = _manager(context).jobs_of(context).access(arguments["handle"])
    name: str = arguments["signal"]
    if job.task.done():
        return await _read(context, job)
    job.process.signal(signal.Signals[f"SIG{name}"])
    return Outcome(content=f"Sent SIG{name} to {job.handle}.")


async def ps(context: Context, _: dict[str, Any]) -> Outcome:
    """The processes of this conversation, running ones first."""
    now = asyncio.get_running_loop().time()
    jobs = _manager(context).jobs_of(context).jobs.values()
    listed: list[dict[str, Any]] = []
    changes: list[Change] = []
    for job in sorted(jobs, key=lambda one: (one.task.done(), one.began)):
        ended = job.ended
        if ended is None and job.task.done():
            state: dict[str, Any] = {"state": "lost" if job.unstarted is None else "not started"}
        elif ended is None:
            state = {"state": "running", "seconds": round(now - job.began, 1)}
        else:
            state = {"state": "ended", "exit_code": ended.exit_code, "seconds": round(ended.duration, 1)}
        unread = job.stdout.total_bytes + job.stderr.total_bytes
        if job.task.done():
            end_look(context, job.take_look())
        changes += job.report_end()
        listed.append({"handle": job.handle, "command": list(job.command), **state, "unread_bytes": unread})
    return Outcome(content={"processes": listed}, changes=tuple(changes))


def _manager(context: Context) -> JobManager:
    if not isinstance(context.connection, JobManager):
        raise ConnectionFailure(context.invoker.ensemble.name, "its [connection] does not open a job manager.")
    return context.connection


async def _read(context: Context, job: Job) -> Outcome:
    """The state of a process; its output, and the changes of files, since the last read.

    Errors: ``ResourceFault`` for a program that turned out never to have started.
    """
    if job.task.done():
        end_look(context, job.take_look())
    else:
        job.look = renew_look(context, job.look)
    output = context.invoker.policy.output
    stdout, stderr = share(job.stdout.take(), job.stderr.take(), output - _MARK)
    if job.unstarted is not None:
        raise job.unstarted
    ended = job.ended
    if ended is not None:
        first = ending(job.command[0], ended)
    elif job.task.done():
        first = f"{job.command[0]!r} is gone, and its outcome is unknown."
    else:
        first = f"{job.command[0]!r} is still running."
    silent = "It wrote nothing since the last call." if not stdout.total_bytes + stderr.total_bytes else ""
    first = f"{first} {silent}".strip()
    return Outcome(
        content=join(first, stdout.text, stderr.text, ""),
        exit_code=None if ended is None else ended.exit_code,
        changes=job.report_end(),
        stdout_truncated=stdout.truncated,
        stderr_truncated=stderr.truncated,
        total_bytes=stdout.total_bytes + stderr.total_bytes,
        stdout_bytes=size_before(first, stdout, stderr),
    )
