"""What ``ask``, ``chat`` and ``resume`` share: which model, agent and tools are wanted, and how a run is shown."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import click

from ripieno.approvals import AutonomousConfirmer, Confirmer, DeferredConfirmer, Given
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters import Conversation
from ripieno.canisters.events import ConfirmationRequested
from ripieno.cli.common.assembly import only
from ripieno.cli.common.models import require_model
from ripieno.cli.common.observers import logged, observed
from ripieno.cli.common.options import Settings
from ripieno.cli.common.terminal import ShownConfirmer, Terminal, is_attended, make_confirmer
from ripieno.cli.conversations.cassettes import NAMES, Cassette, assemble_taped, open_cassette, play_runs, taping
from ripieno.cli.conversations.persistence import Keeper
from ripieno.conducting import Run, Watcher
from ripieno.conducting.observers.console import Renderer
from ripieno.testing.cassettes import Replay

Consent: TypeAlias = Literal["terminal", "deferred", "autonomous"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line. ``tools`` are patterns; None is whatever is offered.

    ``consent`` says who is asked for it: the person at the terminal, somebody later, or nobody.
    """

    model: str | None
    agent: str | None
    tools: tuple[str, ...] | None
    quiet: bool
    consent: Consent = "terminal"
    cassette: Cassette | None = None
    watchers: tuple[Watcher, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        model: str | None,
        agent: str | None,
        tools: tuple[str, ...],
        quiet: bool,
        autonomous: bool,
        defer: bool,
    ) -> "Wanted":
        """The options as click gives them. Errors: ``click.UsageError`` for those that contradict each other."""
        if agent is not None and tools:
            raise click.UsageError("Give --agent, which has its own tools, or --tools; not both.")
        if autonomous and defer:
            raise click.UsageError("Give --autonomous, where nobody is asked, or --defer; not both.")
        consent: Consent = "autonomous" if autonomous else "deferred" if defer else "terminal"
        return cls(model=model, agent=agent, tools=tools or None, quiet=quiet, consent=consent)

    def like(self, model: str | None, tools: tuple[str, ...] | None) -> "Wanted":
        """The same, with what a conversation had before in place of what was not asked for."""
        if self.agent is not None:
            return self
        return dataclasses.replace(self, model=self.model or model, tools=self.tools or tools)

    def confirmer(self, terminal: Terminal, *, patient: bool = False) -> Confirmer:
        """Who is asked for consent. Where nobody is there a ``patient`` command lets calls wait, and others deny."""
        if self.consent == "autonomous":
            return AutonomousConfirmer()
        if self.consent == "deferred" or (patient and not is_attended()):
            return DeferredConfirmer()
        return make_confirmer(terminal)

    def patterns(self, loaded: LoadedConfiguration) -> Sequence[str] | None:
        """The tools that are offered, by patterns; None is all."""
        agents = loaded.configuration.agents
        return agents[self.agent].tools if self.agent is not None and self.agent in agents else self.tools

    def assembly(
        self, loaded: LoadedConfiguration, confirmer: ShownConfirmer, renderer: Renderer, keeper: Keeper
    ) -> Assembly:
        """An assembly of the ensembles that are wanted, whose model is known to be there. Errors: those of both."""
        patterns = self.patterns(loaded)
        chosen = loaded if patterns is None else only(loaded, patterns)
        assembly = assemble_taped(
            chosen,
            self.cassette,
            confirmer=confirmer,
            alert=renderer.show,
            recorder=keeper.journal,
            grants=keeper.store.grants,
            watchers=self.watchers,
        )
        require_model(assembly, self.model, self.agent)
        return assembly

    def renderer(self) -> Renderer:
        """What shows runs: their text on standard output, everything else on standard error."""
        return Renderer(sys.stdout, sys.stderr, quiet=self.quiet)

    def conduct(
        self, assembly: Assembly, what: Conversation, *, answers: Mapping[str, Given] | None = None, caller: str = ""
    ) -> Run:
        """A run over what is said. Errors: ``InputError`` for names that fit nothing.

        ``caller`` is the client of a server for which it runs; tools know it as their ``auxdata``.
        """
        return assembly.conduct(
            what, model=self.model, agent=self.agent, tools=self.tools, answers=answers, auxdata=caller or None
        )


def asking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of ``Wanted``; the command gets it as ``wanted``."""
    options = (
        click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model, instead of the configured one."),
        click.option("--agent", metavar="A", help="An agent of the configuration: its model, instructions and tools."),
        click.option("--tools", metavar="PATTERN", multiple=True, help="Only these tools, such as 'io.read_*'."),
        click.option("--quiet", "-q", is_flag=True, help="Only the text; no lines about tools."),
        click.option(
            "--autonomous",
            is_flag=True,
            help="Ask nobody: what no rule denies may run. What can destroy needs a rule with its name.",
        ),
        click.option("--defer", is_flag=True, help="Ask nobody now: calls that need consent wait (ripieno approvals)."),
    )

    @functools.wraps(command)
    def wrapped(*arguments: Any, **given: Any) -> Any:
        names = ("model", "agent", "tools", "quiet", "autonomous", "defer")
        wanted = Wanted.of(**{name: given.pop(name) for name in names})
        taped = {name: given.pop(name) for name in NAMES}
        debug = click.get_current_context().ensure_object(Settings).debug
        with open_cassette(taped) as cassette, observed(given.pop("log"), debug=debug) as watchers:
            if isinstance(cassette, Replay) and not cassette.forks:
                prompt = given.get("prompt")
                return play_runs(cassette, wanted.renderer(), None if prompt == "-" else prompt)
            return command(
                *arguments, wanted=dataclasses.replace(wanted, cassette=cassette, watchers=watchers), **given
            )

    made: Callable[..., Any] = logged(taping(wrapped))
    for option in reversed(options):
        made = option(made)
    return made


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
