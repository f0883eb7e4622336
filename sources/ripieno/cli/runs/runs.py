"""``ripieno runs``: lists, watches and cancels runs that workers conduct."""

import datetime
import re
import shlex
from collections.abc import Collection, Sequence
from typing import Any

import click

from ripieno.assembly.continuations import cancel_submission
from ripieno.assembly.submission_states import find_following, list_submissions
from ripieno.assembly.submission_workers import Conductor, conductors_of
from ripieno.canisters.display import brief, short
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Format, common, formats
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.common.workers import problem_of
from ripieno.cli.journal.selection import limits, own_place
from ripieno.cli.runs.queue import (
    WIDTH,
    complete_submission,
    find,
    has_queue,
    open_queue,
    prompt_of,
    submitted_run,
    words_of,
)
from ripieno.cli.runs.watch import going_on, show_run
from ripieno.exceptions import NameAbsence
from ripieno.storage.dispatch.contract import STATES, Dispatched, Schedule, State
from ripieno.storage.dispatch.leases import WorkerLeases, WorkerState
from ripieno.storage.journal import Journal

#: The place of an error in a file, and the folder of a path: what precedes the cause in a reason.
_PLACE = re.compile(r"\A(?:\S+: )?error: |(?<![^\s'\"(])/(?:[^\s/'\"]+/)+")


@click.group()
@common
def runs() -> None:
    """List, watch and cancel runs that workers conduct.

    \b
    Example:
      ripieno submit "Which tests fail, and why?"
      ripieno runs list
      ripieno runs watch 3f9a
      ripieno runs cancel 3f9a
    """


@runs.command("list")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only those in this state.")
@click.option("--owner", metavar="NAME", help="Only those of this user.")
@limits("runs", default=20)
@formats
@common
def list_(states: tuple[State, ...], owner: str | None, limit: int, output: Format) -> None:
    """List submitted runs, the newest first.

    \b
    Example:
      ripieno runs list
      ripieno runs list --state running --state queued
      ripieno runs list --format json
    """
    found, conductors, cancelled = list[Dispatched](), dict[str, Conductor](), set[str]()
    if has_queue(own_place()):
        with open_queue() as (dispatcher, journal):
            found += list_submissions(dispatcher, journal.database, owner=owner, states=states, limit=limit)
            conductors |= conductors_of(found, journal.database)
            running = [one.submission.identifier for one in found if one.state == "running"]
            # They run until their calls have ended, or, if their worker is gone, until another one takes them.
            cancelled |= set(dispatcher.cancelled(running))
    if output == "json":
        print_json([_mapping(one, conductors.get(one.submission.identifier), cancelled) for one in found])
        return
    if not found:
        click.echo("No run was submitted." if not states and owner is None else "No run matches.")
        return
    rows = [
        [
            short(one.submission.identifier),
            f"{one.state} (cancelled)" if one.submission.identifier in cancelled else one.state,
            _time(one.submitted),
            _time(one.starts if one.state == "scheduled" else None),
            short(one.submission.conversation),
            _worker(one, conductors.get(one.submission.identifier)),
            brief(_PLACE.sub("", one.reason), WIDTH) or words_of(one.submission),
        ]
        for one in found
    ]
    print_table(["RUN", "STATE", "SUBMITTED (UTC)", "DUE (UTC)", "CONVERSATION", "WORKER", "PROMPT OR REASON"], rows)
    current = (one.submission for one in found if one.submission.identifier in conductors)
    for problem in dict.fromkeys(problem_of(conductors[one.identifier], one) for one in current):
        if problem:
            say(problem)


@runs.command()
@click.argument("run", default="", shell_complete=complete_submission)
@common
def watch(run: str) -> None:
    """Show a RUN while it goes on, from its beginning. Ctrl-C ends only the watching.

    If its calls were answered, the run that continues it follows. The exit code is that of the last one.

    The beginning of its identifier is enough. Without it, shows the latest. The events of a run are kept for ten
    minutes; after that, its answer is shown, and the journal has all of it.

    \b
    Example:
      ripieno runs watch
      ripieno runs watch 3f9a
    """
    with open_queue() as (dispatcher, journal):
        watched = submitted_run(find(dispatcher, journal, run), dispatcher, journal)
        with going_on(watched):
            raise run_async(show_run(watched))


@runs.command()
@click.argument("run", shell_complete=complete_submission)
@common
def cancel(run: str) -> None:
    """Cancel a RUN that waits for its turn, or is under way. Each call that was started still gets its result.

    \b
    Example:
      ripieno runs cancel 3f9a
    """
    if not run:
        # A script whose variable is empty would cancel the latest.
        raise click.UsageError("RUN is empty. To list the runs: ripieno runs list")
    with open_queue() as (dispatcher, journal):
        found = find(dispatcher, journal, run)
        if found.state == "waiting":
            conversation = shlex.quote(short(found.submission.conversation))
            say("Nothing runs: it waits for a person.")
            say(f"To deny the call:           ripieno approvals deny {conversation}")
            say(f"To delete the conversation: ripieno journal delete {conversation}")
            return
        if found.over:
            say(f"It has ended already: {found.state}.")
            following = find_following(dispatcher, found)
            if following is not None and not following.over:
                name = shlex.quote(short(following.submission.identifier))
                say(f"The run {name} continues its conversation. To cancel that: ripieno runs cancel {name}")
            return
        reopened = cancel_submission(dispatcher, journal, found.submission.identifier)
        conductors = conductors_of([found] if found.state == "running" else [], journal.database)
    say(f"Cancelled: {found.submission.identifier}")
    for conductor in conductors.values():
        if problem := problem_of(conductor, found.submission):
            say(f"It ends when another worker takes it, which calls nothing more. {problem}")
    if reopened is not None:
        say(f"Its calls wait again. To see them: ripieno approvals show {shlex.quote(reopened.short)}")


@runs.command()
@formats
@common
def workers(output: Format) -> None:
    """List the workers that are alive.

    \b
    Example:
      ripieno runs workers
    """
    place, found = own_place(), list[WorkerState]()
    # Before anything was submitted, there may be no journal.
    if isinstance(place, str) or place.exists():
        with Journal(place) as journal:
            found += WorkerLeases(journal.database).alive()
    if output == "json":
        print_json([{"name": one.name, "hosts": one.hosts, "seconds_left": round(one.left, 1)} for one in found])
    elif not found:
        click.echo("No worker is alive. To start one: ripieno work")
    else:
        rows = [[one.name, ", ".join(one.hosts), f"{one.left:.0f} s"] for one in found]
        print_table(["WORKER", "HOSTS", "LEASE"], rows)


@runs.command()
@click.option("--end", metavar="NAME", help="End this schedule.")
@formats
@common
def schedules(end: str | None, output: Format) -> None:
    """List the schedules of runs, or end one.

    \b
    Example:
      ripieno runs schedules
      ripieno runs schedules --end morning
    """
    found: Sequence[Schedule] = ()
    if has_queue(own_place()):
        with open_queue() as (dispatcher, _):
            if end is not None:
                dispatcher.end_schedule(end)
                say(f"Ended: {end}")
                return
            found = dispatcher.schedules()
    elif end is not None:
        raise NameAbsence("schedule", end)
    if output == "json":
        print_json([_schedule(one) for one in found])
    elif not found:
        click.echo("There is no schedule.")
    else:
        rows = [[one.name, one.cron, _time(one.next), words_of(one.submission)] for one in found]
        print_table(["NAME", "CRON (UTC)", "NEXT (UTC)", "PROMPT"], rows)


def _worker(dispatched: Dispatched, conductor: Conductor | None) -> str:
    """The worker that conducts a run, or has conducted it; or the host for which it waits."""
    name = dispatched.worker if conductor is None else conductor.name
    host = f"for {dispatched.submission.host or 'any host'}"
    if conductor is None or conductor.alive:
        return name or host
    return f"{name} (gone)" if name else host if conductor.awaited else f"{host} (none is alive)"


def _time(time: datetime.datetime | None) -> str:
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def _schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "next": schedule.next and schedule.next.isoformat(),
        "prompt": prompt_of(schedule.submission),
        "conversation": schedule.submission.conversation,
    }


def _mapping(dispatched: Dispatched, conductor: Conductor | None, cancelled: Collection[str]) -> dict[str, Any]:
    one = dispatched.submission
    return {
        "run": one.identifier,
        "state": dispatched.state,
        # Also of one that runs until it ends.
        "cancelled": dispatched.state == "cancelled" or one.identifier in cancelled,
        "finish": dispatched.finish or None,
        "reason": dispatched.reason or None,
        "conversation": one.conversation,
        "owner": one.owner,
        "model": one.model,
        "agent": one.agent,
        "workspace": one.workspace or None,
        "host": one.host or None,
        "priority": one.priority,
        "submitted": dispatched.submitted.isoformat(),
        "starts": dispatched.starts and dispatched.starts.isoformat(),
        "ended": dispatched.ended and dispatched.ended.isoformat(),
        "worker": (dispatched.worker if conductor is None else conductor.name) or None,
        # Of one that waits: whether a worker is alive that takes it.
        "worker_alive": None if conductor is None else conductor.alive if conductor.name else conductor.awaited,
    }
