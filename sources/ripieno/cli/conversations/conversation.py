"""The options and the output of runs, shared by ``ask``, ``chat`` and ``resume``."""

import asyncio
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
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.events import ConfirmationRequested
from ripieno.cli.common import exit_codes
from ripieno.cli.common.completion import complete_agent, complete_model
from ripieno.cli.common.layers import only
from ripieno.cli.common.main import say
from ripieno.cli.common.models import require_model
from ripieno.cli.common.observers import logged, observed
from ripieno.cli.common.options import Settings, add_options, journaled
from ripieno.cli.common.scores import differences, find_model, score_of
from ripieno.cli.common.terminal import ShownConfirmer, Terminal, is_attended, make_confirmer
from ripieno.cli.conversations.cassettes import (
    NAMES,
    Cassette,
    cassette_options,
    exit_of,
    make_cassette_assembly,
    open_cassette,
    replay_runs,
)
from ripieno.cli.conversations.persistence import Keeper
from ripieno.conducting import Run, Watcher
from ripieno.conducting.observers.console import Renderer
from ripieno.ensembles.offers import Offer
from ripieno.models import Model
from ripieno.testing.cassettes import Replay
from ripieno.testing.scores.expectations import Expectations
from ripieno.values import Value

Consent: TypeAlias = Literal["terminal", "deferred", "autonomous"]


class Wanted(Value, kw_only=True):
    """The options of a run. ``tools`` are patterns; None means all offered tools.

    ``consent``: whether approval is requested at the terminal, later, or not at all.
    """

    model: str | Model | None
    agent: str | None
    tools: tuple[str, ...] | None
    quiet: bool
    consent: Consent = "terminal"
    cassette: Cassette | None = None
    watchers: tuple[Watcher, ...] = ()

    def like(self, model: str | None, tools: tuple[str, ...] | None) -> "Wanted":
        """These options, completed with the model and tools that the conversation had before."""
        if self.agent is not None:
            return self
        return dataclasses.replace(self, model=self.model or find_model(model), tools=self.tools or tools)

    def confirmer(self, terminal: Terminal, renderer: Renderer, *, can_wait: bool = False) -> ShownConfirmer:
        """The confirmer. Without a terminal, calls wait if the command ``can_wait``, and are denied otherwise."""
        # At a terminal, the question itself is shown.
        announcing = self.consent != "autonomous" and not is_attended()
        return ShownConfirmer(self._confirmer(terminal, can_wait=can_wait), renderer, announcing=announcing)

    def _confirmer(self, terminal: Terminal, *, can_wait: bool) -> Confirmer:
        if self.consent == "autonomous":
            return AutonomousConfirmer()
        if self.consent == "deferred" or (can_wait and not is_attended()):
            return DeferredConfirmer()
        return make_confirmer(terminal)

    def patterns(self, loaded: LoadedConfiguration) -> Sequence[str] | None:
        """The patterns of the offered tools; None means all."""
        agents = loaded.configuration.agents
        return agents[self.agent].tools if self.agent is not None and self.agent in agents else self.tools

    def assembly(
        self, loaded: LoadedConfiguration, confirmer: ShownConfirmer, renderer: Renderer, keeper: Keeper
    ) -> Assembly:
        """An assembly of the ensembles with offered tools. Checks its model. Errors: those of both."""
        patterns = self.patterns(loaded)
        chosen = loaded if patterns is None else only(loaded, patterns)
        assembly = make_cassette_assembly(
            chosen,
            self.cassette,
            confirmer=confirmer,
            alert=renderer.show,
            recorder=keeper.journal,
            grants=keeper.store.grants,
            watchers=self.watchers,
        )
        context = click.get_current_context(silent=True)
        require_model(assembly, self.model, self.agent, command="ask" if context is None else context.info_name or "")
        return assembly

    def renderer(self) -> Renderer:
        """A renderer with text on standard output and everything else on standard error."""
        return Renderer(sys.stdout, sys.stderr, quiet=self.quiet)

    def conduct(
        self,
        assembly: Assembly,
        conversation: Conversation,
        *,
        answers: Mapping[str, Given] | None = None,
        owner: str = "",
    ) -> Run:
        """A run over a conversation. Errors: ``InputError`` for names that match nothing.

        ``owner`` is the gateway client that requested it; tools receive it as ``auxdata``.
        """
        return assembly.conduct(
            conversation,
            model=self.model,
            agent=self.agent,
            tools=self.tools,
            answers=answers,
            owner=owner,
            auxdata=owner or None,
        )


_OPTIONS = (
    click.option(
        "-m",
        "--model",
        metavar="PROVIDER/MODEL",
        shell_complete=complete_model,
        help="The model, instead of the configured one. A scripted one: score:FILE.",
    ),
    click.option(
        "--agent",
        metavar="A",
        shell_complete=complete_agent,
        help="A configured agent: its model, instructions and tools.",
    ),
    click.option("--tools", metavar="PATTERN", multiple=True, help="Offer only these tools, such as 'io.read_*'."),
    click.option("--quiet", "-q", is_flag=True, help="Show only the answer, without lines about tools."),
    click.option(
        "--autonomous",
        is_flag=True,
        help="Run calls without approval unless a rule denies them. Destructive tools need a rule with their name.",
    ),
    click.option("--defer", is_flag=True, help="Let calls that need approval wait for: ripieno approvals"),
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of ``Wanted``; the command receives it as ``wanted``.

    Errors: ``click.UsageError`` for contradictory options.
    """

    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        model: str | None,
        agent: str | None,
        tools: tuple[str, ...],
        quiet: bool,
        autonomous: bool,
        defer: bool,
        **given: Any,
    ) -> Any:
        if agent is not None and tools:
            raise click.UsageError("Give either --agent, which has its own tools, or --tools.")
        if autonomous and defer:
            raise click.UsageError("Give either --autonomous or --defer.")
        consent: Consent = "autonomous" if autonomous else "deferred" if defer else "terminal"
        wanted = Wanted(model=find_model(model), agent=agent, tools=tools or None, quiet=quiet, consent=consent)
        taped = {name: given.pop(name) for name in NAMES}
        debug = click.get_current_context().ensure_object(Settings).debug
        with open_cassette(taped) as cassette, observed(given.pop("log"), debug=debug) as watchers:
            if isinstance(cassette, Replay) and not cassette.forks:
                prompt = given.get("prompt")
                return replay_runs(cassette, wanted.renderer(), None if prompt == "-" else prompt)
            return command(
                *arguments, wanted=dataclasses.replace(wanted, cassette=cassette, watchers=watchers), **given
            )

    return add_options(journaled(logged(cassette_options(wrapped))), _OPTIONS)


async def converse(
    loaded: LoadedConfiguration,
    wanted: Wanted,
    conversation: Conversation,
    terminal: Terminal,
    keeper: Keeper,
    *,
    answers: Mapping[str, Given] | None = None,
    can_wait: bool = False,
) -> Conversation:
    """Conducts a conversation, shows it and saves it. ``can_wait`` is that of ``Wanted.confirmer``."""
    renderer = wanted.renderer()
    confirmer = wanted.confirmer(terminal, renderer, can_wait=can_wait)
    async with wanted.assembly(loaded, confirmer, renderer, keeper) as assembly:
        owner = keeper.owner(conversation.identifier)
        run = wanted.conduct(assembly, conversation, answers=answers, owner=owner)
        if (waiting := waits_for_client(conversation, assembly, wanted)) is not None:
            keeper.wait(waiting, run.model.identity, wanted.tools)
            return waiting
        try:
            return await follow(run, assembly, renderer, confirmer)
        except asyncio.CancelledError:
            if (command := keeper.continuation(run.conversation)) is not None:
                say(f"To continue: {command}")
            raise
        finally:
            keeper.keep(run.conversation, run.model.identity, wanted.tools)


def waits_for_client(conversation: Conversation, assembly: Assembly, wanted: Wanted) -> Conversation | None:
    """The conversation, with the reason for each call that its client runs; None if none of its calls is one."""
    offer = Offer.of(assembly.ensembles, tools=wanted.patterns(assembly.loaded))
    found = {one.identifier: offer.named(one.name) for one in conversation.open}
    tools = {name: one.identity for name, one in found.items() if one is not None and one.hosted == "caller"}
    if not tools:
        return None
    others = [one for one in conversation.waiting if one.invocation not in tools]
    own = [Waiting(invocation=name, why="caller", tool=tool) for name, tool in tools.items()]
    return conversation.replace(waiting=(*others, *own), finish="open")


def compared(ended: Conversation, wanted: Wanted, loaded: LoadedConfiguration) -> click.exceptions.Exit:
    """The exit of a command whose run has ended, after the comparison with what a scripted model expects."""
    found, score = exit_of(ended), score_of(wanted.model)
    if score is None or ended.open or ended.finish == "open":
        return found
    if score.expect == Expectations():  # Without the table, the run may end in any way.
        expect = dataclasses.replace(score.expect, finish=ended.finish or "")
        score = dataclasses.replace(score, expect=expect)
    faults = differences(score, loaded.workspace, ended)
    for fault in faults:
        say(f"Unexpected: {fault}")
    if score.expect.programs:
        say("Not compared: the programs under [expect]. Only `ripieno demo --score FILE` runs them.")
    refused = faults and found.exit_code == exit_codes.GOOD
    return click.exceptions.Exit(exit_codes.REFUSED) if refused else found


async def follow(run: Run, assembly: Assembly, renderer: Renderer, confirmer: ShownConfirmer) -> Conversation:
    """Shows a run until it ends. Returns its conversation. Errors: those of the run."""
    try:
        async for event in run:
            if isinstance(event, ConfirmationRequested):
                confirmer.announce(event)
            elif not any(event is alert for alert in assembly.alerts):
                # Alerts of the assembly have been shown already.
                renderer.show(event)
        return await run
    finally:
        renderer.end_line()
