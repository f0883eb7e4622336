"""``ripieno demo``: a scripted model calls real tools over real wires, so that one can watch the whole of it."""

import contextlib
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from typing import Any, TextIO

import click

from ripieno.assembly import Assembly, assemble
from ripieno.cli import exits
from ripieno.cli.models import bundled_examples
from ripieno.cli.running import run_async
from ripieno.cli.scores import find_score
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.conversations import Conversation
from ripieno.events import Event, ExecutionBegan, ResultReady, TurnBegan
from ripieno.exceptions import RipienoError, UsageError
from ripieno.gathering import Places, gather
from ripieno.processors import Protocol
from ripieno.rehearsal.server import base_url, create_application
from ripieno.scores import Score
from ripieno.serving import serve
from ripieno.showing import Renderer
from ripieno.toolset import DATA

_FILE = "README.rst"
_NOTE = "notes/summary.md"
_README = """\
Ripieno
=======

In a concerto grosso, the *ripieno* is the full ensemble: everybody who plays. Ripieno lets a language model
play every tool that a program declares: tools are declared in TOML, grouped into ensembles, and offered to any
provider in that provider's own form.
"""


@click.command()
@click.option("--protocol", metavar="P", help="Only over this wire format; over each by default.")
@common
@pass_settings
def demo(settings: Settings, protocol: str | None) -> None:
    """Watch a scripted model call real tools over real wires; no key needed.

    The model's words come from a score. Its requests travel over real HTTP in each provider's own format, the
    tools are real (files, a program, an MCP server), and the answer quotes what they really said. Nothing outside
    of a temporary folder is touched.

    \b
    Example:
      ripieno demo
    """
    if settings.config is not None or settings.workspace is not None:
        raise UsageError(
            "The demo plays what it brings, in a folder of its own: it takes no --config and no --workspace."
        )
    score = find_score("demo")
    print("The model in this demo is scripted: it needs no key, and costs nothing. Everything else is real:")
    print("the HTTP, the wire formats, the files, the program wc, the MCP server, and every result it quotes.")
    with tempfile.TemporaryDirectory(prefix="ripieno-demo-") as name:
        folder = pathlib.Path(name)
        # What the user has configured must not change what is played.
        places = Places(configuration=folder / "configuration", state=folder / "state")
        with _own_python(folder):
            quoted = run_async(_play(score, folder, places, protocol))
    _print_end(score, quoted)
    raise click.exceptions.Exit(exits.GOOD if quoted is not None else exits.REFUSED)


async def _play(score: Score, folder: pathlib.Path, places: Places, only: str | None) -> tuple[str, ...] | None:
    """Plays the score over each protocol, or one; the first lines of the file that it read, or None when it did not."""
    registry = gather(places=places).registry
    wanted = sorted(registry.protocols) if only is None else [only]
    protocols: list[Protocol] = [registry.resolve("protocols", name) for name in wanted]
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / _FILE).write_text(_readme(), encoding="utf-8")
    # One that has no wire of its own is carried by another; which one is all the same.
    known: list[Protocol] = [registry.resolve("protocols", name) for name in sorted(registry.protocols)]
    carrier = next(protocol for protocol in known if protocol.routes)
    served = dict.fromkeys(protocol if protocol.routes else carrier for protocol in protocols)
    async with serve(create_application(score, served)) as url:
        urls = {protocol.name: base_url(url, protocol if protocol.routes else carrier) for protocol in protocols}
        configuration = _configuration(urls, carrier.name)
        began = time.perf_counter()
        async with assemble(configuration, workspace=workspace, places=places) as assembly:
            count = sum(len(ensemble.invokers) for ensemble in assembly.ensembles)
            names = ", ".join(ensemble.name for ensemble in assembly.ensembles)
            print(f"{count} tools of {len(assembly.ensembles)} ensembles ({names}) are connected, in {_since(began)}.")
            for absence in assembly.absences:
                reason = absence.reason.rpartition("could not be started: ")[2].partition(" (")[0]
                print(f"Left out, since it is optional: {absence.name}. {reason}.")
            quoted: tuple[str, ...] | None = None
            for protocol in protocols:
                print(f"\n=== {protocol.name}, at {urls[protocol.name]}")
                conversation = await _converse(score, assembly, f"rehearsed-{protocol.name}/{score.name}")
                quoted = _quoted(workspace, conversation)
                if quoted is None:
                    print(f"The conversation over {protocol.name} did not end as the score says.", file=sys.stderr)
                    break
                # Each conversation begins in the same workspace.
                shutil.rmtree(workspace / pathlib.Path(_NOTE).parent)
            return quoted


def _configuration(urls: Mapping[str, str], carrier: str) -> dict[str, Any]:
    """What the demo plays, with a provider for each protocol at its URL."""
    return {
        "ensembles": {"paths": [str(DATA / "demo" / "ensembles")], "enabled": ["io", "clock", "count", "attic"]},
        "providers": {
            f"rehearsed-{name}": {"protocol": name, "base_url": url, "carrier": carrier} for name, url in urls.items()
        },
        # One tool is approved, by its name; everything else that writes would ask.
        "confirmation": {"approve": ["io.write_file"]},
    }


async def _converse(score: Score, assembly: Assembly, model: str) -> Conversation:
    print(f"user: {score.prompt}")
    run = assembly.conduct(score.prompt, model=model)
    progress = Progress(sys.stdout)
    async for event in run:
        progress.show(event)
    conversation = await run
    progress.summarize()
    return conversation


class Progress:
    """Shows a run with its clock, and counts what started early."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._renderer = Renderer(stream)
        self._began = time.perf_counter()
        self._turns = 0
        self._early: list[str] = []
        self._calls = 0
        self._failed = 0

    def show(self, event: Event) -> None:
        """Shows one event, each turn under the time at which it began."""
        if isinstance(event, TurnBegan):
            self._turns += 1
            self._renderer.note(f"--- turn {self._turns}, at {_since(self._began)}", "bold")
        elif isinstance(event, ExecutionBegan):
            self._calls += 1
            if event.early:
                self._early.append(event.tool)
        elif isinstance(event, ResultReady):
            self._failed += event.result.error is not None
        self._renderer.show(event)

    def summarize(self) -> None:
        """Says what it came to."""
        self._renderer.end_line()
        print(
            f"--- {self._turns} turns, {self._calls} calls, {_since(self._began)}; "
            f"{self._failed} failed, and was mended.\n"
            f"    Started early, while the model still spoke: {', '.join(self._early) or 'none'}.",
            file=self._stream,
        )


def _quoted(workspace: pathlib.Path, conversation: Conversation) -> tuple[str, ...] | None:
    """The beginnings of the file and of the note, if the answer and the note quote them; otherwise None."""
    first = (workspace / _FILE).read_text(encoding="utf-8").splitlines()[0]
    try:
        note = (workspace / _NOTE).read_text(encoding="utf-8")
    except OSError:
        return None
    good = conversation.finish == "stop" and first in conversation.text and first in note
    return (first, note.strip()) if good else None


def _print_end(score: Score, quoted: tuple[str, ...] | None) -> None:
    print(f"\nThe model was scripted (score {score.name!r}); the tools, the files and the wires were real.")
    print("The same with a real model, in a folder of yours:")
    for line in bundled_examples(f"What is in {_FILE}?"):
        print(f"  {line}")
    if quoted is not None:
        first, note = quoted
        print(f"\nThe note that it wrote to {_NOTE}:")
        for line in note.splitlines():
            print(f"  {line}")
        print(f"The first line of {_FILE}, which it read: {first}")


def _readme() -> str:
    """The text of this package's own README, as far as it was installed with one."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError, RipienoError):
        # The description stands after the headers, as the body of a message does.
        text = metadata.metadata("ripieno").json.get("description")
        if isinstance(text, str) and text.strip():
            return text
    return _README


@contextlib.contextmanager
def _own_python(folder: pathlib.Path) -> Generator[None]:
    """Makes ``python``, which the demo's MCP server is started with, mean the interpreter that runs this."""
    own = folder / "bin"
    own.mkdir()
    modules = os.environ.get("PYTHONPATH")
    path = f"export PYTHONPATH={shlex.quote(modules)}\n" if modules else ""
    script = own / "python"
    script.write_text(f'#!/bin/sh\n{path}exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = f"{own}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.2f} s"
