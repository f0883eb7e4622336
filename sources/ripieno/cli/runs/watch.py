"""Shows a run that a worker conducts, as ``ripieno ask`` shows its own."""

import contextlib
import shlex
import sys
from collections.abc import Generator

import click

from ripieno.assembly.submissions import SubmittedRun
from ripieno.canisters.display import short
from ripieno.canisters.events import ConductEnded
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import Interrupted, say
from ripieno.cli.common.workers import problem_of
from ripieno.conducting.observers.console import Renderer
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.dispatch.contract import Dispatched
from ripieno.storage.dispatch.events import QuestionAnswered, RunFailed, StretchBegan

_CODES = {
    "waiting": exit_codes.WAITING,
    "failed": exit_codes.REFUSED,
    "cancelled": exit_codes.UNANSWERED,
}
_ANSWERED = ("stop", "terminal")


@contextlib.contextmanager
def going_on(run: SubmittedRun) -> Generator[None, None, None]:
    """Says that a run goes on, and how to watch it again, if a signal or its database ends the block."""
    again = f"To watch it again: ripieno runs watch {shlex.quote(short(run.identifier))}"
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        say(f"The run goes on. {again}")
        raise
    except NameAbsence:
        raise  # It was deleted.
    except InputError as error:
        raise InputError(f"{error}\nOnly the watching has ended. {again}") from error


async def show_run(run: SubmittedRun) -> click.exceptions.Exit:
    """Shows a run until it ends, and those with which it goes on after answers; returns the exit of the command."""
    if run.submission.response:
        name = run.submission.conversation
        say(f"It is a background response of a gateway. Its caller reads it there: GET /v1/responses/{name}")
    while True:
        shown = await _show_events(run)
        dispatched = await run.ended()
        following = await run.following() if dispatched.state == "answered" else None
        if following is None:
            break
        say(f"It was answered. The run {short(following.identifier)} continues it.")
        run = following
    if not shown and (text := await _text(run, dispatched)):
        click.echo(text)
    return _exit(dispatched)


async def _show_events(run: SubmittedRun) -> bool:
    """Shows the events of a run; whether there were any."""
    renderer = Renderer(sys.stdout, sys.stderr)
    shown, said = False, ""
    try:
        async with contextlib.aclosing(run.logged()) as logged:
            async for batch in logged:
                for _, event in batch:
                    if isinstance(event, StretchBegan | QuestionAnswered | RunFailed):
                        continue
                    # The exit says that it was cancelled, or waits.
                    if not (isinstance(event, ConductEnded) and event.finish in ("cancelled", "open")):
                        renderer.show(event)
                    shown = True
                problem = "" if batch else await _problem(run)
                if problem not in ("", said):
                    renderer.end_line()
                    say(problem)
                said = problem or said
    finally:
        renderer.end_line()
    return shown


async def _problem(run: SubmittedRun) -> str:
    """Why no worker conducts the run; empty if one does, or soon will."""
    conductor = await run.conductor()
    return "" if conductor is None else problem_of(conductor, run.submission)


async def _text(run: SubmittedRun, dispatched: Dispatched) -> str:
    """The answer of a run whose events are no longer kept. That of a response can be read by its gateway only."""
    return "" if run.submission.response or dispatched.state in ("failed", "cancelled") else (await run).text


def _exit(dispatched: Dispatched) -> click.exceptions.Exit:
    conversation = shlex.quote(short(dispatched.submission.conversation))
    if dispatched.state == "waiting":
        say("It waits for a person.")
        say(f"To see the call:  ripieno approvals show {conversation}")
        say(f"To approve it:    ripieno approvals approve {conversation}")
        say(f"To deny it:       ripieno approvals deny {conversation}")
        say("A worker then continues it.")
    elif dispatched.state == "answered":
        say("It was answered, and continued in another program.")
        say(f"To see all of it: ripieno journal show {conversation}")
    elif dispatched.state == "failed":
        say(f"It failed: {dispatched.reason or dispatched.finish}")
    elif dispatched.state == "cancelled":
        say("It was cancelled.")
    elif dispatched.submission.response:
        say(f"It has ended: {dispatched.finish}.")
    code = _CODES.get(dispatched.state, exit_codes.GOOD)
    if dispatched.state == "ended" and dispatched.finish not in _ANSWERED:
        code = exit_codes.LIMIT if dispatched.finish == "limit" else exit_codes.UNANSWERED
    return click.exceptions.Exit(code)
