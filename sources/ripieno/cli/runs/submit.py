"""``ripieno submit``: gives a run to a worker, now, later, or again and again."""

import dataclasses
import datetime
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration, variables_of
from ripieno.assembly.journal import open_journal
from ripieno.assembly.submission_states import find_last, find_queued, find_submission
from ripieno.assembly.submissions import make_submission, model_of, open_dispatcher
from ripieno.assembly.submissions import submit as queue_submission
from ripieno.canisters import Conversation
from ripieno.canisters.display import short
from ripieno.cli.common.completion import complete_agent
from ripieno.cli.common.layers import load_without_ensembles, require_valid
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.models import missing_variables
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.scores import find_model
from ripieno.cli.common.workers import report_lacking_worker
from ripieno.cli.conversations.persistence import Keeper
from ripieno.cli.conversations.selection import find
from ripieno.cli.runs.queue import words_of
from ripieno.cli.runs.watch import going_on, show_run
from ripieno.conducting.paused import PausedStore
from ripieno.descriptors.names import matches
from ripieno.exceptions import InputError, NameAbsence
from ripieno.models import Model
from ripieno.storage.databases.contract import Database
from ripieno.storage.dispatch.contract import PRIORITIES, Dispatched, Dispatcher, Schedule, Submission
from ripieno.storage.journal import Journal

_DELAY = re.compile(r"\+(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Moment(click.ParamType[datetime.datetime]):
    """A time: ISO 8601, of this machine's zone if it names none; or a delay, such as +30m."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        if delay := _DELAY.fullmatch(value):
            return datetime.datetime.now(datetime.UTC) + datetime.timedelta(**{_UNITS[delay[2]]: int(delay[1])})
        try:
            time = datetime.datetime.fromisoformat(value)
            time.astimezone()
        except (ValueError, OverflowError):
            text = f"{value!r} is not a time. Write one such as 2027-01-31T08:00, or a delay such as +30m."
            self.fail(text, param, ctx)
        return time


@click.command()
@click.argument("prompt")
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model, instead of the configured one.")
@click.option("--agent", metavar="A", shell_complete=complete_agent, help="A configured agent.")
@click.option("--tools", metavar="PATTERN", multiple=True, help="Offer only these tools, such as 'io.read_*'.")
@click.option(
    "--conversation", metavar="ID", default="", help="Continue this one, after its runs. Its beginning is enough."
)
@click.option("--owner", metavar="NAME", default="", help="The user for whom it is, where there are several.")
@click.option("--anywhere", is_flag=True, help="Any worker takes it, in its own workspace.")
@click.option("--at", metavar="TIME", type=Moment(), help="Not before a time, or after a delay such as +30m.")
@click.option("--cron", metavar="FIELDS", help="Again and again, such as '0 8 * * *' (UTC). Needs --name.")
@click.option("--name", metavar="NAME", help="The name of the schedule of --cron. An earlier one is replaced.")
@click.option(
    "--priority",
    type=click.Choice(PRIORITIES),
    default="normal",
    show_default=True,
    help="Low: one at a time in each worker, beside the others.",
)
@click.option("--id", "identifier", metavar="ID", default="", help="Of submissions with one identifier, one runs.")
@click.option("--watch", is_flag=True, help="Show the run, and wait for its end. Ctrl-C ends only the watching.")
@common
@pass_settings
def submit(settings: Settings, /, *, prompt: str, at: datetime.datetime | None, watch: bool, **given: Any) -> None:
    """Give a run to a worker, on this machine or another one, and return at once.

    A worker (ripieno work) conducts it: it goes on when this terminal is closed, and another worker continues it when
    its machine fails. Calls that need approval wait for: ripieno approvals. The run is in the journal, and the message
    in the queue, which has no keys. A PROMPT of - is read from standard input.

    With --conversation, the model or agent, the tools and the place are those of its last submitted run, unless you
    name others.

    \b
    Example:
      ripieno submit -m PROVIDER/MODEL "Which tests fail, and why?"
      ripieno submit --watch "Write the changelog."
      ripieno submit --at +30m "Look again whether the build is green."
      ripieno submit --cron '0 8 * * *' --name morning "Summarise the new issues."
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise InputError("The prompt is empty.")
    cron, name, identifier = given.pop("cron"), given.pop("name"), given.pop("identifier")
    if (cron is None) != (name is None):
        raise click.UsageError("Give --cron and --name together.")
    if cron is not None and (at is not None or watch or identifier):
        raise click.UsageError("--cron goes with neither --at, --watch nor --id.")
    settings.journal = True
    loaded = load_without_ensembles(settings)
    require_valid(loaded)
    _check_ensembles(given["tools"], loaded.known)
    said, continued = Conversation.of(text), given.pop("conversation")
    model = find_model(given.pop("model"))
    fields: dict[str, Any] = {**given, "tools": given["tools"] or None, "model": _typed(model)}
    dispatcher = open_dispatcher(loaded, os.environ)
    try:
        with open_journal(loaded, os.environ) as journal:
            if continued:
                keeper = Keeper(loaded, settings, journal=journal)
                conversation, owner = _find_continued(keeper, dispatcher, continued, given["owner"])
                said = dataclasses.replace(said, identifier=conversation)
                last = find_last(dispatcher, conversation, owner)
                fields |= {"owner": owner, "last": last, "workspace": settings.workspace}
            submission = make_submission(loaded, journal, said, identifier=identifier, **fields)
            _warn(loaded, submission)
            # Before it is queued: a worker may decline it at once.
            asks = bool(continued) and _waits(journal, submission)
            if cron is not None:
                earlier = dispatcher.repeat(Schedule(name=name, cron=cron, submission=submission))
                if earlier is not None:
                    say(f"Replaced: {name} ({earlier.cron}, UTC), which was: {words_of(earlier.submission)}")
                say(f"Scheduled: {name} ({cron}, UTC). To list the schedules: ripieno runs schedules")
                if asks:
                    _report_question(submission)
                return
            run = queue_submission(submission, dispatcher, journal, at=at)
            with going_on(run):
                found = find_submission(dispatcher, journal.database, run.identifier)
                _report(found, journal.database, at, known=run.known, watch=watch)
                if asks and not run.known:
                    _report_question(submission, cancel=True)
                if watch:
                    raise run_async(show_run(run))
    finally:
        dispatcher.close()


def _find_continued(keeper: Keeper, dispatcher: Dispatcher, beginning: str, owner: str) -> tuple[str, str]:
    """The identifier and the owner of the conversation with this beginning, also of one that no worker has taken yet.

    Errors: ``NameAbsence``; ``InputError`` if several match, or if it is another owner's.
    """
    if owner and keeper.journal is not None and next(iter(keeper.journal.lines(beginning, owner=owner)), None):
        return beginning, owner  # Another owner may have one of the same name.
    try:
        found = find(keeper, beginning)
        name, whose = found.identifier, found.owner
    except NameAbsence:
        queued = find_queued(dispatcher, beginning)
        if queued is None:
            raise
        name, whose = queued
    if owner and whose != owner:
        belongs = f"is of {whose}" if whose else "has no owner"
        raise InputError(f"The conversation {name} {belongs}. Leave out: --owner {owner}")
    return name, whose


def _check_ensembles(patterns: Iterable[str], known: Collection[str]) -> None:
    """Errors: ``NameAbsence`` for a pattern of an unknown ensemble."""
    for pattern in patterns:
        wanted = pattern.partition(".")[0]
        if not any(matches(wanted, f"{name}.any") for name in known):
            raise NameAbsence("ensemble", wanted, known, hint="To list the tools: ripieno tools")


def _typed(model: str | Model | None) -> str:
    """A scripted model by the path of its file, so that the worker finds it."""
    return f"score:{model.name}" if isinstance(model, Model) else model or ""


def _warn(loaded: LoadedConfiguration, submission: Submission) -> None:
    """Warns about a key that is missing here. It is no error: the worker has an environment of its own."""
    model = model_of(submission, loaded.configuration)
    provider = loaded.providers.get(model.partition("/")[0])
    if lacking := missing_variables(provider, variables_of(loaded, os.environ)):
        say(f"! The provider of {model} needs {' and '.join(lacking)}, not set here. Its worker must have it.")


def _waits(journal: Journal, submission: Submission) -> bool:
    """Whether the conversation waits for a person, whose question the message declines."""
    paused = PausedStore(journal.database).load(submission.conversation, owner=submission.owner)
    return paused is not None and bool(paused.unanswered)


def _report_question(submission: Submission, *, cancel: bool = False) -> None:
    say("! A question of this conversation waits for an answer. The message declines it when a worker takes it.")
    if cancel:
        say(f"To cancel the message:  ripieno runs cancel {shlex.quote(short(submission.identifier))}")
    say(f"To answer the question: ripieno approvals show {shlex.quote(short(submission.conversation))}")


def _report(found: Dispatched, database: Database, at: datetime.datetime | None, *, known: bool, watch: bool) -> None:
    identifier = found.submission.identifier
    when = f", not before {at.astimezone():%Y-%m-%d %H:%M:%S} (local time)" if at is not None else ""
    wanted = found.submitted if at is None else max(at.astimezone(), found.submitted)
    if found.starts is not None and found.starts > wanted + datetime.timedelta(seconds=1):
        begins = f"{found.starts.astimezone():%Y-%m-%d %H:%M:%S} (local time)"
        when = f". It begins at {begins}: a rate under [durable] is reached"
    if known:
        say(f"Known already, nothing is submitted: {identifier} ({found.state})")
    else:
        say(f"Submitted: {identifier}{when}")
    if not watch:
        say(f"To watch it: ripieno runs watch {shlex.quote(short(identifier))}")
        if not found.over:
            report_lacking_worker(found.submission, database)
