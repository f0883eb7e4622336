"""``ripieno demo``: a scripted model calls real tools over a real wire, and the result is compared with the score."""

import os
import pathlib
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ripieno.assembly import Assembly, assemble
from ripieno.assembly.builtins import DEFAULT_PROTOCOL
from ripieno.assembly.configuration import load_configuration
from ripieno.canisters import Conversation
from ripieno.canisters.events import Event, ExecutionBegan, ResultReady, TurnBegan
from ripieno.cli.common import exit_codes
from ripieno.cli.common.completion import complete_score
from ripieno.cli.common.main import run_async
from ripieno.cli.common.models import bundled_examples
from ripieno.cli.common.options import Number, Settings, common, pass_settings
from ripieno.cli.common.scores import FOLDER, find_file
from ripieno.cli.common.wires import protocols
from ripieno.cli.conversations.cassettes import Cassette, cassette_options, open_cassette
from ripieno.cli.demo.rehearse import ENSEMBLES
from ripieno.cli.demo.workspace import examine, interpreter_in_path, prepare
from ripieno.conducting import Run
from ripieno.conducting.observers.console import Renderer
from ripieno.exceptions import UsageError
from ripieno.jsonvalues import is_list, merge
from ripieno.models import Protocol
from ripieno.servers.http.server import serve
from ripieno.storage.places import Places
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score

_INTRODUCTION = """\
The model in this demo is scripted: it needs no key and costs nothing. Everything else is real:
HTTP, wire formats, tools, files, and every result that the model quotes."""
#: The name of the notes in the cassette.
_STAGE = "stage"
#: The default score.
_DEMO = "demo"
#: The name of all protocols together.
_ALL = "all"


@click.command()
@click.option(
    "--score",
    "name",
    metavar="SCORE",
    shell_complete=complete_score,
    default=_DEMO,
    show_default=True,
    help="The name of a bundled score, or the path of a file.",
)
@protocols(f'The wire format, or "{_ALL}" for each in turn.', default=DEFAULT_PROTOCOL)
@click.option(
    "--sandbox",
    "tier",
    metavar="TIER",
    type=Number(1, 2),
    help="The sandbox tier for programs: 1 (kernel) or 2 (bubblewrap). Default: the highest available.",
)
@cassette_options
@common
@pass_settings
def demo(settings: Settings, /, *, name: str, protocol: str, tier: int | None, **given: Any) -> None:
    """Watch a scripted model call real tools over a real wire; no key needed.

    The model's words come from a score. Its requests travel over real HTTP in a provider's own format, the tools are
    real, and the answer quotes their results. Only a temporary folder is changed.

    The score "demo" reads a file, runs a program, calls an MCP server and writes a note. The score "repair" is an agent
    at work: it clones a repository, finds a bug with search, fixes it, runs the tests, commits and submits. At the end
    the workspace is compared with what the score expects; the exit code is 1 if something differs.

    Your own score runs with the bundled tools and those in the folders that it names; your configuration is not read.
    It may name programs under [setup] and [expect]. They run with your rights, outside the sandbox.

    \b
    Example:
      ripieno demo
      ripieno demo --protocol all
      ripieno demo --score repair --sandbox 2
      ripieno demo --record demo.jsonl
      ripieno demo --replay demo.jsonl
    """
    if settings.config is not None or settings.workspace is not None:
        raise UsageError("The demo has its own configuration and workspace: leave out --config and --workspace.")
    file = find_file(name)
    score = Score.read(file)
    with open_cassette(given) as cassette:
        stage = DemoStage(cassette)
        if stage.replay is not None:
            good = run_async(replay_demo(stage, stage.replay))
        else:
            with tempfile.TemporaryDirectory(prefix="ripieno-demo-") as temporary:
                folder = pathlib.Path(temporary)
                with interpreter_in_path(folder):
                    demonstration = _Demonstration(score, file, name, stage=stage, folder=folder, tier=tier)
                    good = stage.end(good=run_async(demonstration.run(protocol)))
    raise click.exceptions.Exit(exit_codes.GOOD if good else exit_codes.REFUSED)


class DemoStage:
    """Prints lines and shows runs, and records both in a cassette, so that a replay shows the same."""

    def __init__(self, cassette: Cassette | None) -> None:
        self.cassette = cassette
        self.forks = isinstance(cassette, Replay) and cassette.forks
        self.replay = cassette if isinstance(cassette, Replay) and not cassette.forks else None

    def _note(self, **values: object) -> None:
        if isinstance(self.cassette, Recorder):
            self.cassette.note(_STAGE, values)

    def say(self, text: str, *, error: bool = False) -> None:
        """Prints a line."""
        self._note(say=text, error=error)
        print(text, file=sys.stderr if error else sys.stdout)

    async def follow(self, run: Run) -> tuple[Conversation, list[Event]]:
        """Shows a run until it ends."""
        self._note(run=True)
        renderer = Renderer(sys.stdout)
        events: list[Event] = []
        async for event in run:
            if isinstance(event, TurnBegan):
                renderer.note(f"--- turn {sum(isinstance(one, TurnBegan) for one in events) + 1}", "bold")
            renderer.show(event)
            events.append(event)
        renderer.end_line()
        return await run, events

    def end(self, *, good: bool) -> bool:
        """Records the end."""
        self._note(end=good)
        return good


async def replay_demo(stage: DemoStage, replay: Replay) -> bool:
    """Shows a recording, and returns whether it ended well. Errors: ``ReplayDivergence``."""
    while True:
        match replay.note(_STAGE):
            case {"say": str(text), "error": bool(error)}:
                stage.say(text, error=error)
            case {"run": True}:
                await stage.follow(replay.conduct())
            case ended:
                return bool(ended == {"end": True})


class _Demonstration:
    """Conversations of one score, one per wire, in a folder without the user's configuration."""

    def __init__(
        self,
        score: Score,
        file: pathlib.Path,
        named: str,
        *,
        stage: DemoStage,
        folder: pathlib.Path,
        tier: int | None,
    ) -> None:
        self._score = score
        self._beside = file.parent.absolute()
        self._named = named
        self._stage = stage
        self._tier = tier
        self._places = Places(configuration=folder / "configuration", state=folder / "state")
        self._workspace = folder / "workspace"

    async def run(self, chosen: str) -> bool:
        """Conducts the score over one protocol or all. Returns whether every conversation ended as expected."""
        registry = load_configuration(places=self._places).registry
        # A protocol without its own wire is carried by the first one that has a wire.
        known: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
        protocols = known if chosen == _ALL else [registry.resolve("protocols", chosen)]
        carrier = next(protocol for protocol in known if protocol.routes)
        served = dict.fromkeys(protocol if protocol.routes else carrier for protocol in protocols)
        self._stage.say(_INTRODUCTION)
        self._workspace.mkdir()
        await prepare(self._score, self._workspace)
        async with serve(create_application(self._score, served)) as url:
            urls = {protocol.name: base_url(url, protocol if protocol.routes else carrier) for protocol in protocols}
            configuration = self._configuration(urls, carrier.name)
            began = time.perf_counter()
            make = assemble if self._stage.cassette is None else self._stage.cassette.assemble
            async with make(configuration, workspace=self._workspace, places=self._places) as assembly:
                self._introduce(assembly, began)
                return self._has_sandbox(assembly) and await self._converse_over(urls, assembly)

    def _configuration(self, urls: Mapping[str, str], carrier: str) -> Mapping[str, Any]:
        providers = {
            f"rehearsed-{name}": {"protocol": name, "base_url": url, "carrier": carrier} for name, url in urls.items()
        }
        sandbox = {"sandbox": {"level": "required", "tier": self._tier}} if self._tier else {}
        given = self._score.setup.configuration
        if self._beside == FOLDER:
            given = merge(given, {"ensembles": {"paths": [str(ENSEMBLES)]}})
        elif isinstance(given.get("ensembles"), Mapping) and is_list(given["ensembles"].get("paths")):
            # As in any file of a configuration, paths are relative to the file.
            paths = [_path_from(self._beside, one) for one in given["ensembles"]["paths"]]
            given = merge(given, {"ensembles": {"paths": paths}})
        return merge(given, {"providers": providers, **sandbox})

    def _introduce(self, assembly: Assembly, began: float) -> None:
        count = sum(len(ensemble.invokers) for ensemble in assembly.ensembles)
        names = ", ".join(ensemble.name for ensemble in assembly.ensembles)
        ensembles = f"{count} tools of {len(assembly.ensembles)} ensembles ({names})"
        self._stage.say(f"Connected {ensembles} in {_since(began)}.")
        for absence in assembly.absences:
            reason = absence.reason.rpartition("could not be started: ")[2].partition(". ")[0]
            self._stage.say(f"Optional ensemble not started: {absence.name}. {reason}.")

    def _has_sandbox(self, assembly: Assembly) -> bool:
        """Whether the configured sandbox is available. Reports it, or why it is missing."""
        sandbox = assembly.surroundings.sandbox
        if sandbox is None or (self._tier is None and "sandbox" not in self._score.setup.configuration):
            return True
        if sandbox.missing is not None:
            self._stage.say(f"No sandbox is available here, so the demo does not run: {sandbox.reason}", error=True)
            return False
        self._stage.say(f"Programs run in the sandbox: {sandbox.name}.")
        if sandbox.reason is not None and self._tier is None:
            self._stage.say(f"No higher tier is available: {sandbox.reason}")
        return True

    async def _converse_over(self, urls: Mapping[str, str], assembly: Assembly) -> bool:
        say = self._stage.say
        lines: list[str] = []
        good = 0
        for number, (protocol, url) in enumerate(urls.items()):
            if number:
                await prepare(self._score, self._workspace)
            say(f"\n=== {protocol}, at {url}")
            say(f"user: {self._score.prompt}")
            began = time.perf_counter()
            run = assembly.conduct(self._score.prompt, model=f"rehearsed-{protocol}/{self._score.name}")
            conversation, events = await self._stage.follow(run)
            say(_summary(events, _since(began)))
            if self._stage.forks:  # The recorded answers changed another workspace.
                continue
            lines, faults = await examine(self._score, self._workspace, conversation)
            good += not faults
            for fault in faults:
                say(f"Unexpected: {fault}", error=True)
        if self._stage.forks:
            return True
        say("\n  ".join(["\nThe workspace at the end:", *lines]))
        say(f"\nWith a real model, in your own folder:\n  {bundled_examples('What is in this folder?')[0]}")
        say("To list all providers and the keys that they need: ripieno providers")
        if others := [name for name in sorted(assembly.loaded.registry.protocols) if name not in urls]:
            score = "" if self._named == _DEMO else f" --score {shlex.quote(self._named)}"
            say(f"The same conversation over each other wire ({', '.join(others)}):")
            say(f"  ripieno demo{score} --protocol {_ALL}")
        say("")
        say(f"{good} of {len(urls)} conversations ended as the score {self._score.name!r} expects.")
        return good == len(urls)


def _summary(events: Sequence[Event], duration: str) -> str:
    turns = sum(isinstance(event, TurnBegan) for event in events)
    early = [event.tool for event in events if isinstance(event, ExecutionBegan) and event.early]
    results = [event.result for event in events if isinstance(event, ResultReady)]
    failed = sum(result.error is not None for result in results)
    sandboxes = dict.fromkeys(filter(None, (result.report.sandbox for result in results)))
    return (
        f"--- {turns} turns, {len(results)} calls, {failed} failed, {duration}\n"
        f"    Calls started before the model had finished: {', '.join(early) or 'none'}."
        + (f"\n    Sandbox of the programs: {' and '.join(sandboxes)}." if sandboxes else "")
    )


def _path_from(folder: pathlib.Path, path: Any) -> Any:
    """The absolute path; a value of another type as it is, which the configuration refuses."""
    return os.path.join(folder, os.path.expanduser(path)) if isinstance(path, str) else path


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.2f} s"
