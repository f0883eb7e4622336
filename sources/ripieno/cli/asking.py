"""What ``ask`` and ``chat`` share: which model, agent and tools are wanted, and how a run is shown."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ripieno.assembly import Assembly
from ripieno.cli.assembling import make_assembly, only
from ripieno.cli.models import require_model
from ripieno.cli.terminal import ShownConfirmer, is_attended
from ripieno.conducting import Run
from ripieno.conversations import Conversation
from ripieno.events import ConfirmationRequested
from ripieno.gathering import Gathered
from ripieno.showing import Renderer

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line. ``tools`` are patterns; None is whatever is offered.

    Errors: ``click.UsageError`` for an agent with other tools than its own.
    """

    model: str | None
    agent: str | None
    tools: tuple[str, ...] | None
    quiet: bool

    @classmethod
    def of(cls, model: str | None, agent: str | None, tools: tuple[str, ...], quiet: bool) -> "Wanted":
        """The options as click gives them."""
        if agent is not None and tools:
            raise click.UsageError("Give --agent, which has its own tools, or --tools; not both.")
        return cls(model=model, agent=agent, tools=tools or None, quiet=quiet)

    def patterns(self, gathered: Gathered) -> Sequence[str] | None:
        """The tools that are offered, by patterns; None is all."""
        agents = gathered.configuration.agents
        return agents[self.agent].tools if self.agent is not None and self.agent in agents else self.tools

    def assembly(self, gathered: Gathered, confirmer: ShownConfirmer, renderer: Renderer) -> Assembly:
        """An assembly of the ensembles that are wanted, whose model is known to be there. Errors: those of both."""
        patterns = self.patterns(gathered)
        chosen = gathered if patterns is None else only(gathered, patterns)
        assembly = make_assembly(chosen, confirmer=confirmer, alert=renderer.show)
        require_model(assembly, self.model, self.agent)
        return assembly

    def renderer(self) -> Renderer:
        """What shows runs: their text on standard output, everything else on standard error."""
        return Renderer(sys.stdout, sys.stderr, quiet=self.quiet)

    def conduct(self, assembly: Assembly, what: str | Conversation) -> Run:
        """A run over what is said. Errors: ``InputError`` for names that fit nothing."""
        return assembly.conduct(what, model=self.model, agent=self.agent, tools=self.tools)


def asking(command: Command) -> Command:
    """Adds the options of ``Wanted``: model, agent, tools, quiet."""
    options = (
        click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model, instead of the configured one."),
        click.option("--agent", metavar="A", help="An agent of the configuration: its model, instructions and tools."),
        click.option("--tools", metavar="PATTERN", multiple=True, help="Only these tools, such as 'io.read_*'."),
        click.option("--quiet", "-q", is_flag=True, help="Only the text; no lines about tools."),
    )
    for option in reversed(options):
        command = option(command)
    return command


async def follow(run: Run, assembly: Assembly, renderer: Renderer, confirmer: ShownConfirmer) -> Conversation:
    """Shows a run until it ends, and gives its conversation. Errors: those of the run."""
    attended = is_attended()
    try:
        async for event in run:
            if isinstance(event, ConfirmationRequested):
                renderer.end_line()
                # At a terminal the question itself says everything.
                if not attended:
                    renderer.show(event)
                confirmer.shown(event.invocation.identifier)
            elif not any(event is alert for alert in assembly.alerts):
                # Those alerts have been shown, when they came to the assembly.
                renderer.show(event)
        return await run
    finally:
        renderer.end_line()
