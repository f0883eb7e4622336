"""``--record``, ``--replay`` and ``--fork``: runs that are written into a cassette, and those that come from one."""

import contextlib
import pathlib
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias

import click

from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import Conversation, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import ToldAssembly
from ripieno.cli.common.main import run_async, say
from ripieno.conducting.observers.console import Renderer
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.cassettes.assembly import CassetteAssembly

Cassette: TypeAlias = Recorder | Replay
_FILE = click.Path(path_type=pathlib.Path, dir_okay=False)
#: The parameters that the options give to a command.
NAMES = ("record", "replay", "fork", "speed", "lenient")
_OPTIONS = (
    click.option("--record", metavar="FILE", type=_FILE, help="Write all that happens into a new cassette."),
    click.option("--replay", metavar="FILE", type=_FILE, help="Play a cassette: no key, no network, no tool."),
    click.option("--fork", metavar="N", type=click.IntRange(0), help="Replay N answers, then go on live."),
    click.option("--speed", metavar="X", type=float, help="Replay with the recorded timing, X times as fast."),
    click.option("--lenient", is_flag=True, help="Replay although requests are not as they were recorded."),
)


def taping(command: Callable[..., Any], *, forks: bool = True) -> Callable[..., Any]:
    """Adds the options."""
    for option in reversed(_OPTIONS):
        if forks or option is not _OPTIONS[2]:
            command = option(command)
    return command


class _TapedAssembly(ToldAssembly, CassetteAssembly):
    """An assembly with a cassette."""


def assemble_taped(loaded: LoadedConfiguration, cassette: Cassette | None, **settings: Any) -> Assembly:
    """The assembly, to be entered, with a cassette where there is one; ``settings`` are those of ``Assembly``."""
    if cassette is None:
        return ToldAssembly(loaded, **settings)
    return _TapedAssembly(loaded, cassette=cassette, **settings)


@contextlib.contextmanager
def open_cassette(given: Mapping[str, Any]) -> Generator[Cassette | None, None, None]:
    """The cassette that was asked for, if any. Errors: ``click.UsageError``, ``InputError``."""
    record, replay, fork = given.get("record"), given.get("replay"), given.get("fork")
    if record is not None and replay is not None:
        raise click.UsageError("Give --record or --replay; not both.")
    lacking = [name for name in ("fork", "speed", "lenient") if given.get(name) not in (None, False)]
    if lacking and replay is None:
        raise click.UsageError(f"--{lacking[0]} says how a cassette is replayed: give --replay FILE, too.")
    if record is not None:
        with Recorder(record) as recording:
            yield recording
        return
    if replay is None:
        yield None
        return
    played = Replay(replay, speed=given.get("speed"), lenient=bool(given.get("lenient")))
    yield played if fork is None else played.fork(fork)


def begin(cassette: Cassette | None, before: Conversation | None = None) -> Conversation:
    """What the next run of a cassette begins with, as a conversation of its own, which goes on from one ``before``."""
    if not isinstance(cassette, Replay):
        return Conversation()
    said = cassette.said()
    if before is None or said.canisters[: len(before.canisters)] != before.canisters:
        return Conversation(canisters=said.canisters)
    return before.replace(canisters=said.canisters, finish=None, submission=None)


def play_runs(replay: Replay, renderer: Renderer, what: str | None = None) -> None:
    """Shows all runs of a cassette, the first of which begins with ``what``. Raises click's ``Exit``."""
    ended = run_async(_play(replay, renderer, what))
    if not replay.whole:
        say(f"The recording in {replay.path} was not ended in order.")
    raise click.exceptions.Exit(exit_codes.GOOD if ended.finish in ("stop", "terminal") else exit_codes.REFUSED)


async def _play(replay: Replay, renderer: Renderer, what: str | None) -> Conversation:
    several = replay.left > 1
    while True:
        said = [one for one in replay.said().canisters if isinstance(one, UserCanister)]
        if several and said:
            say(f"you: {text_of(said[-1].content)}")
        run = replay.conduct(None, what)
        what = None
        try:
            async for event in run:
                renderer.show(event)
        finally:
            renderer.end_line()
        conversation = await run
        if not replay.left:
            return conversation
