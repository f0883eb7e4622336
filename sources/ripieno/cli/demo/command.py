"""``ripieno demo``: a scripted model calls real tools over real wires, so that one can watch the whole of it."""

import pathlib
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import click

from ripieno.assembly import Assembly, assemble
from ripieno.assembly.configuration import Places, gather
from ripieno.canisters import Conversation
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import run_async
from ripieno.cli.common.models import bundled_examples
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.conversations.cassettes import open_cassette, taping
from ripieno.cli.demo.play_demo import Tour
from ripieno.cli.demo.play_repair import Repair
from ripieno.cli.demo.scores import find_score
from ripieno.cli.demo.stage import Stage, encore, since
from ripieno.cli.demo.workspace import Findings, Play
from ripieno.exceptions import NameAbsence, UsageError
from ripieno.models import Protocol
from ripieno.servers.http.server import serve
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from ripieno.toolset import DATA

_PLAYS: Mapping[str, type[Tour] | type[Repair]] = {one.score: one for one in (Tour, Repair)}


@click.command()
@click.option(
    "--score",
    "name",
    metavar="NAME",
    default=Tour.score,
    show_default=True,
    help=f"What is played: {' or '.join(_PLAYS)}.",
)
@click.option("--protocol", metavar="P", help="Only over this wire format; over each by default.")
@click.option(
    "--sandbox",
    "tier",
    metavar="TIER",
    type=click.IntRange(1, 2),
    help="Run the programs of tools in this tier, 1 (the kernel's own) or 2 (bubblewrap); the highest by default.",
)
@taping
@common
@pass_settings
def demo(settings: Settings, /, *, name: str, protocol: str | None, tier: int | None, **given: Any) -> None:
    """Watch a scripted model call real tools over real wires; no key needed.

    The model's words come from a score. Its requests travel over real HTTP in each provider's own format, the
    tools are real, and the answer quotes what they really said. Nothing outside of a temporary folder is touched.

    The score demo reads a file, runs a program, asks an MCP server and writes a note. The score repair is an agent at
    work: it clones a repository that the demo makes, finds a bug with search, mends it, runs the tests, commits and
    submits. The repository itself is looked at afterwards; the exit code is 1 when it is not as it must be.

    \b
    Example:
      ripieno demo
      ripieno demo --score repair
      ripieno demo --score repair --sandbox 2
      ripieno demo --record demo.jsonl
      ripieno demo --replay demo.jsonl
    """
    if settings.config is not None or settings.workspace is not None:
        raise UsageError(
            "The demo plays what it brings, in a folder of its own: it takes no --config and no --workspace."
        )
    if name not in _PLAYS:
        raise NameAbsence("score", name, _PLAYS, hint="Others are served to a client of yours by: ripieno rehearse")
    with open_cassette(given) as cassette:
        if isinstance(cassette, Replay) and not cassette.forks:
            name = str(cassette.note("play"))
        elif isinstance(cassette, Recorder):
            cassette.note("play", name)
        _demonstrate(_PLAYS[name](), Stage(cassette), protocol, tier)


def _demonstrate(play: Play, stage: Stage, protocol: str | None, tier: int | None) -> None:
    score = find_score(play.score)
    print("The model in this demo is scripted: it needs no key, and costs nothing. Everything else is real:")
    print(f"the HTTP, the wire formats, {play.real}, and every result it quotes.")
    if stage.replay is not None:
        findings = run_async(encore(stage, stage.replay))
    else:
        with tempfile.TemporaryDirectory(prefix="ripieno-demo-") as temporary:
            folder = pathlib.Path(temporary)
            with play.surround(folder):
                findings = run_async(_Demonstration(play, score, stage, folder, tier).play(protocol))
        stage.end(findings)
    good = findings is not None and not findings.faults
    if findings is not None:
        _print_end(play, score, findings)
    raise click.exceptions.Exit(exit_codes.GOOD if good else exit_codes.REFUSED)


class _Demonstration:
    """Where a play is played: a folder of its own, with nothing of what the user has configured."""

    def __init__(self, play: Play, score: Score, stage: Stage, folder: pathlib.Path, tier: int | None) -> None:
        self._play = play
        self._stage = stage
        self._score = score
        self._tier = tier
        # What the user has configured must not change what is played.
        self._places = Places(configuration=folder / "configuration", state=folder / "state")
        self._workspace = folder / "workspace"
        #: The sandboxes that results name, each once.
        self._sandboxes: dict[str, None] = {}

    async def play(self, only: str | None) -> Findings | None:
        """Plays over each protocol, or one; what was found after the last one, or None where nothing was played."""
        registry = gather(places=self._places).registry
        # One that has no wire of its own is carried by another; which one is all the same.
        known: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
        protocols = known if only is None else [registry.resolve("protocols", only)]
        self._workspace.mkdir()
        await self._play.prepare(self._workspace)
        carrier = next(protocol for protocol in known if protocol.routes)
        served = dict.fromkeys(protocol if protocol.routes else carrier for protocol in protocols)
        async with serve(create_application(self._score, served)) as url:
            urls = {protocol.name: base_url(url, protocol if protocol.routes else carrier) for protocol in protocols}
            configuration = self._configuration(urls, carrier.name)
            began = time.perf_counter()
            make = assemble if self._stage.cassette is None else self._stage.cassette.assemble
            async with make(configuration, workspace=self._workspace, places=self._places) as assembly:
                return await self._converse_over(urls, assembly, began) if self._holds(assembly) else None

    def _configuration(self, urls: Mapping[str, str], carrier: str) -> dict[str, Any]:
        """What is played, with a provider for each protocol at its URL."""
        return {
            "ensembles": {"paths": [str(DATA / "demo" / "ensembles")], "enabled": list(self._play.ensembles)},
            "providers": {
                f"rehearsed-{name}": {"protocol": name, "base_url": url, "carrier": carrier}
                for name, url in urls.items()
            },
            "confirmation": {"approve": list(self._play.approve)},
            "sandbox": {} if self._tier is None else {"level": "required", "tier": self._tier},
        }

    def _holds(self, assembly: Assembly) -> bool:
        """Whether the sandbox holds that is needed. Says which it is, or why there is none."""
        sandbox = assembly.surroundings.sandbox
        if sandbox is None or not (self._play.confined or self._tier):
            return True
        if sandbox.missing is not None:
            self._stage.say(f"Nothing was played, since no sandbox holds here: {sandbox.reason}", error=True)
            return False
        self._stage.say(f"The programs of tools run under {sandbox.name}.")
        if sandbox.reason is not None and self._tier is None:
            self._stage.say(f"No higher, since: {sandbox.reason}")
        return True

    async def _converse_over(self, urls: Mapping[str, str], assembly: Assembly, began: float) -> Findings:
        count = sum(len(ensemble.invokers) for ensemble in assembly.ensembles)
        names = ", ".join(ensemble.name for ensemble in assembly.ensembles)
        self._stage.say(
            f"{count} tools of {len(assembly.ensembles)} ensembles ({names}) are connected, in {since(began)}."
        )
        for absence in assembly.absences:
            reason = absence.reason.rpartition("could not be started: ")[2].partition(" (")[0]
            self._stage.say(f"Left out, since it is optional: {absence.name}. {reason}.")
        findings = Findings()
        for number, (protocol, url) in enumerate(urls.items()):
            if number:
                # Each conversation begins in the same workspace.
                self._play.clear(self._workspace)
            self._stage.say(f"\n=== {protocol}, at {url}")
            conversation = await self._converse(assembly, f"rehearsed-{protocol}/{self._score.name}")
            if self._stage.forks:
                # What was done in the recorded answers was done in another workspace.
                continue
            findings = await self._play.look(self._workspace, conversation)
            if findings.faults:
                self._stage.say(f"The conversation over {protocol} did not end as the score says.", error=True)
                for fault in findings.faults:
                    self._stage.say(f"  {fault}", error=True)
                break
        if self._play.confined or self._tier:
            said = " and ".join(self._sandboxes) or "no sandbox, since none was run"
            return Findings(
                lines=[*findings.lines, f"Every program of a tool ran under {said}."], faults=findings.faults
            )
        return findings

    async def _converse(self, assembly: Assembly, model: str) -> Conversation:
        self._stage.say(f"user: {self._score.prompt}")
        return await self._stage.follow(assembly.conduct(self._score.prompt, model=model), self._sandboxes)


def _print_end(play: Play, score: Score, findings: Findings) -> None:
    print(f"\nThe model was scripted (score {score.name!r}); the tools, the files and the wires were real.")
    if play.question is not None:
        print("The same with a real model, in a folder of yours:")
        for line in bundled_examples(play.question):
            print(f"  {line}")
    for line in findings.lines:
        print(line)
