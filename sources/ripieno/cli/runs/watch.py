"""Shows a run that a worker conducts, as ``ripieno ask`` shows its own."""

import contextlib
import sys

import click

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters.events import ConductEnded
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import say
from ripieno.conducting.observers.console import Renderer
from ripieno.storage.dispatch.contract import Dispatched

_CODES = {
    "waiting": exit_codes.WAITING,
    "failed": exit_codes.REFUSED,
    "cancelled": exit_codes.UNANSWERED,
}
_ANSWERED = ("stop", "terminal")


async def show_run(run: SubmittedRun) -> click.exceptions.Exit:
    """Shows a run until it ends; returns the exit of the command."""
    renderer = Renderer(sys.stdout, sys.stderr)
    shown = False
    try:
        async with contextlib.aclosing(run.numbered()) as numbered:
            async for _, event in numbered:
                # The exit says that it was cancelled.
                if not (isinstance(event, ConductEnded) and event.finish == "cancelled"):
                    renderer.show(event)
                shown = True
    finally:
        renderer.end_line()
    dispatched = await run.state()
    if not shown and dispatched.over:
        conversation = await _text(run, dispatched)
        if conversation:
            click.echo(conversation)
    return _exit(dispatched)


async def _text(run: SubmittedRun, dispatched: Dispatched) -> str:
    """The answer of a run whose events are no longer kept."""
    return "" if dispatched.state in ("failed", "cancelled") else (await run).text


def _exit(dispatched: Dispatched) -> click.exceptions.Exit:
    short = dispatched.submission.conversation[:8]
    if dispatched.state == "waiting":
        say("It waits for a person.")
        say(f"To see the call:  ripieno approvals show {short}")
        say(f"To approve it:    ripieno approvals approve {short}")
        say(f"To deny it:       ripieno approvals deny {short}")
        say("A worker then continues it.")
    elif dispatched.state == "failed":
        say(f"It failed: {dispatched.reason or dispatched.finish}")
    elif dispatched.state == "cancelled":
        say("It was cancelled.")
    code = _CODES.get(dispatched.state, exit_codes.GOOD)
    if dispatched.state == "ended" and dispatched.finish not in _ANSWERED:
        code = exit_codes.LIMIT if dispatched.finish == "limit" else exit_codes.UNANSWERED
    return click.exceptions.Exit(code)
