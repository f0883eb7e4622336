"""``--record``, ``--replay`` and ``--fork``: runs that are recorded in a cassette, or replayed from one."""

import contextlib
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

import click

from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import Conversation, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import ConfirmationRequested
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import ReportingAssembly
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import FILE, Command, Number, add_options
from ripieno.conducting.observers.console import Renderer
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.cassettes.assembly import CassetteAssembly

Cassette: TypeAlias = Recorder | Replay
#: The finishes of a run that has an answer.
ANSWERED = ("stop", "terminal")
#: The parameters that the options give to a command.
NAMES = ("record", "replay", "fork", "speed", "lenient")
_OPTIONS = (
    click.option("--record", metavar="FILE", type=FILE, help="Record everything in a new cassette."),
    click.option("--replay", metavar="FILE", type=FILE, help="Replay a cassette, without key, network or tools."),
    click.option("--fork", metavar="N", type=Number(0), help="Replay N answers, then continue live."),
    click.option("--speed", metavar="X", type=float, help="Replay with the recorded timing, X times as fast."),
    click.option("--lenient", is_flag=True, help="Replay even if requests differ from the recorded ones."),
)


def cassette_options(command: Command) -> Command:
    """Adds the options of cassettes."""
    return add_options(command, _OPTIONS)


class _CassetteAssembly(ReportingAssembly, CassetteAssembly):
    """An assembly with a cassette."""


def make_cassette_assembly(loaded: LoadedConfiguration, cassette: Cassette | None, **settings: Any) -> Assembly:
    """An assembly, not entered yet, with the cassette, if any; ``settings`` are those of ``Assembly``."""
    if cassette is None:
        return ReportingAssembly(loaded, **settings)
    return _CassetteAssembly(loaded, cassette=cassette, **settings)


@contextlib.contextmanager
def open_cassette(given: Mapping[str, Any]) -> Generator[Cassette | None, None, None]:
    """The cassette that the options name, if any. Errors: ``click.UsageError``, ``InputError``."""
    record, replay, fork = given.get("record"), given.get("replay"), given.get("fork")
    if record is not None and replay is not None:
        raise click.UsageError("Give either --record or --replay.")
    dependent = [name for name in ("fork", "speed", "lenient") if given.get(name) not in (None, False)]
    if dependent and replay is None:
        raise click.UsageError(f"--{dependent[0]} needs --replay FILE.")
    if record is not None:
        with Recorder(record) as recording:
            yield recording
        return
    if replay is None:
        yield None
        return
    replayed = Replay(replay, speed=given.get("speed"), lenient=bool(given.get("lenient")))
    yield replayed if fork is None else replayed.fork(fork)


def begin(cassette: Cassette | None, before: Conversation | None = None) -> Conversation:
    """The conversation with which the next run of a cassette starts. It continues ``before`` where possible."""
    if not isinstance(cassette, Replay):
        return Conversation()
    canisters = cassette.said().canisters
    if before is None or canisters[: len(before.canisters)] != before.canisters:
        return Conversation(canisters=canisters)
    return before.replace(canisters=canisters, finish=None, submission=None)


def replay_runs(replay: Replay, renderer: Renderer, prompt: str | None = None) -> None:
    """Shows all runs of a cassette; ``prompt`` is checked against the first. Raises click's ``Exit``."""
    ended = run_async(_replay(replay, renderer, prompt))
    if not replay.whole:
        say(f"The recording in {replay.path} is incomplete: it was interrupted.")
    raise exit_of(ended)


def exit_of(ended: Conversation) -> click.exceptions.Exit:
    """The exit of a command whose last run has ended."""
    if ended.finish in ANSWERED:
        return click.exceptions.Exit(exit_codes.GOOD)
    codes = {"open": exit_codes.WAITING, "limit": exit_codes.LIMIT}
    return click.exceptions.Exit(codes.get(ended.finish or "", exit_codes.UNANSWERED))


async def _replay(replay: Replay, renderer: Renderer, prompt: str | None) -> Conversation:
    several = replay.left > 1
    while True:
        prompts = [one for one in replay.said().canisters if isinstance(one, UserCanister)]
        if several and prompts:
            say(f"you: {text_of(prompts[-1].content)}")
        run = replay.conduct(None, prompt)
        prompt = None
        try:
            async for event in run:
                # Nobody is asked: the recording has the answer.
                if not isinstance(event, ConfirmationRequested):
                    renderer.show(event)
        finally:
            renderer.end_line()
        conversation = await run
        if not replay.left:
            return conversation
