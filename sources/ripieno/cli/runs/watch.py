"""Shows a run that a worker conducts, as ``ripieno ask`` shows its own."""

import contextlib
import shlex
import sys
from collections.abc import Generator

import click

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters.events import ConductEnded
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import Interrupted, say
from ripieno.cli.runs.queue import SHORT
from ripieno.conducting.observers.console import Renderer
from ripieno.storage.dispatch.contract import Dispatched

_CODES = {
    "waiting": exit_codes.WAITING,
    "failed": exit_codes.REFUSED,
    "cancelled": exit_codes.UNANSWERED,
}
_ANSWERED = ("stop", "terminal")


@contextlib.contextmanager
def going_on(run: SubmittedRun) -> Generator[None, None, None]:
    """Says that a run goes on, if a signal ends the block."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        say(f"The run goes on. To watch it again: ripieno runs watch {shlex.quote(run.identifier[:SHORT])}")
        raise


async def show_run(run: SubmittedRun) -> click.exceptions.Exit:
    """Shows a run until it ends, and those with which it goes on after answers; returns the exit of the command."""
    while True:
        shown = await _show_events(run)
        dispatched = await run.ended()
        following = await run.following() if dispatched.state == "answered" else None
        if following is None:
            break
        say(f"It was answered. The run {following.identifier[:SHORT]} continues it.")
        run = following
    if not shown and (text := await _text(run, dispatched)):
        click.echo(text)
    return _exit(dispatched)


async def _show_events(run: SubmittedRun) -> bool:
    """Shows the events of a run; whether there were any."""
    renderer = Renderer(sys.stdout, sys.stderr)
    shown = False
    try:
        async with contextlib.aclosing(run.numbered()) as numbered:
            async for _, event in numbered:
                # The exit says that it was cancelled, or waits.
                if not (isinstance(event, ConductEnded) and event.finish in ("cancelled", "open")):
                    renderer.show(event)
                shown = True
    finally:
        renderer.end_line()
    return shown


async def _text(run: SubmittedRun, dispatched: Dispatched) -> str:
    """The answer of a run whose events are no longer kept."""
    return "" if dispatched.state in ("failed", "cancelled") else (await run).text


def _exit(dispatched: Dispatched) -> click.exceptions.Exit:
    short = dispatched.submission.conversation[:SHORT]
    if dispatched.state == "waiting":
        say("It waits for a person.")
        say(f"To see the call:  ripieno approvals show {short}")
        say(f"To approve it:    ripieno approvals approve {short}")
        say(f"To deny it:       ripieno approvals deny {short}")
        say("A worker then continues it.")
    elif dispatched.state == "answered":
        say("It was answered, and continued in another program.")
        say(f"To see all of it: ripieno journal show {short}")
    elif dispatched.state == "failed":
        say(f"It failed: {dispatched.reason or dispatched.finish}")
    elif dispatched.state == "cancelled":
        say("It was cancelled.")
    code = _CODES.get(dispatched.state, exit_codes.GOOD)
    if dispatched.state == "ended" and dispatched.finish not in _ANSWERED:
        code = exit_codes.LIMIT if dispatched.finish == "limit" else exit_codes.UNANSWERED
    return click.exceptions.Exit(code)
