"""``Assembly``: connected ensembles, one execution and the models, built from descriptors and plugins."""

import contextlib
import dataclasses
import datetime
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Answer, Confirmer, Given, Grants
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.ensembles import ConnectedEnsembles
from ripieno.assembly.submissions import SubmittedRun, make_submission, open_dispatcher, submit
from ripieno.canisters import Canister, Controls, Conversation, SupervisorCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Alert
from ripieno.conducting import Run, Watcher, conduct
from ripieno.conducting.history import History
from ripieno.descriptors import AgentDescriptor, HistoryDescriptor
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import Offer, only_ensembles
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import (
    InputError,
    NameAbsence,
    UsageError,
)
from ripieno.execution import Execution
from ripieno.jsonvalues import EMPTY, listed
from ripieno.models import Model
from ripieno.models.providers import Providers
from ripieno.sandbox import Spawner
from ripieno.storage.dispatch.contract import Dispatcher, Priority
from ripieno.storage.records import Recorder


class Assembly(ConnectedEnsembles):
    """Connected ensembles, one execution and the models, while it is entered with ``async with``.

    Errors on entering: ``AssemblyFailure``, with every reason; then all ensembles are disconnected.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        *,
        confirmer: Confirmer | None = None,
        recorder: Recorder | None = None,
        grants: Grants | None = None,
        spawner: Spawner | None = None,
        secrets: Mapping[str, str] | None = None,
        alert: Callable[[Alert], None] | None = None,
        watchers: Sequence[Watcher] = (),
        clients: Mapping[str, Any] = EMPTY,
    ) -> None:
        super().__init__(loaded, spawner=spawner, secrets=secrets, alert=alert)
        self._watchers = tuple(watchers)
        self._histories: dict[HistoryDescriptor, History] = {}
        self.endings = contextlib.AsyncExitStack()
        self._secrets = {**os.environ, **(secrets or {})}
        self.execution = Execution(
            limits=self.configuration.limits,
            rules=self.configuration.confirmation,
            confirmer=confirmer,
            recorder=recorder,
            grants=grants,
            surroundings=self.surroundings,
        )
        self._providers = Providers(
            loaded.providers,
            protocol=functools.partial(loaded.registry.resolve, "protocols"),
            secrets=self.surroundings.secrets,
            configuration=self.configuration,
            parts=loaded.parts,
            clients=clients,
        )

    def _enter_stores(self, stack: contextlib.ExitStack) -> None:
        if self.configuration.journal and self.execution.reporter.recorder is None:
            from ripieno.assembly.journal import open_journal  # It imports sqlite3.

            self.execution.reporter.recorder = stack.enter_context(open_journal(self.loaded, self._secrets))

    async def _close(self, ensembles: Sequence[Ensemble]) -> None:
        await self.endings.aclose()
        if "dispatcher" in vars(self):
            await run_in_thread(self.dispatcher.close, name="submission")
        await super()._close(ensembles)
        await self._providers.close()

    @property
    def openings(self) -> Mapping[str, int]:
        """The number of times that the circuit breaker of each provider's endpoint has opened."""
        return self._providers.openings

    def access_model(self, identity: str | None = None) -> Model:
        """The model ``provider/model``; or the default one, with its fallbacks.

        A fallback whose variables are not set is left out, with an ``Alert``. Errors: ``InputError`` with advice.
        """
        if identity:
            return self._providers.access_model(identity)
        return self._chain(self.configuration.model, self.configuration.fallback)

    def _chain(self, identity: str | None, fallback: Sequence[str]) -> Model:
        if identity is None:
            raise InputError('No model is named. Name one, or set default = "provider/model" under [model].')
        return self._providers.chain(identity, fallback, self._note)

    def _named(self, identity: str | None, agent: AgentDescriptor | None) -> Model:
        """The model of a run. One that is named has no fallbacks."""
        if identity:
            return self.access_model(identity)
        return self.access_model() if agent is None else self._model_of(agent)

    def _model_of(self, agent: AgentDescriptor) -> Model:
        default = self.configuration
        identity = agent.model or default.model
        fallback = default.fallback if agent.model in (None, default.model) else ()
        return self._chain(identity, fallback if agent.fallback is None else agent.fallback)

    def _history(self, descriptor: HistoryDescriptor) -> History:
        """The history settings of a descriptor; the same object each time, since it keeps the summaries."""
        if descriptor not in self._histories:
            model = None if descriptor.model is None else self.access_model(descriptor.model)
            self._histories[descriptor] = History.of(descriptor, model)
        return self._histories[descriptor]

    def access_agent(self, name: str) -> AgentDescriptor:
        """The agent with a name. Errors: ``NameAbsence``."""
        if name not in self.configuration.agents:
            raise NameAbsence("agent", name, self.configuration.agents, hint="Add one as a table [agents.NAME].")
        return self.configuration.agents[name]

    def conduct(
        self,
        what: str | Canister | Sequence[Canister] | Conversation,
        *,
        model: str | Model | None = None,
        agent: str | None = None,
        ensembles: Sequence[Ensemble] | None = None,
        supervisor: str | SupervisorCanister | None = None,
        tools: Sequence[str] | None = None,
        owner: str = "",
        confirmer: Confirmer | None = None,
        auxdata: Any = None,
        controls: Controls | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer | Given] | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> Run:
        """A run with this assembly's ensembles, execution and models, and with the settings of ``agent``.

        ``ensembles`` take the place of the assembly's: ``[*assembly.ensembles, mine]`` adds one. ``owner`` is the user
        for whom it is made. ``confirmer`` is asked instead of the assembly's. ``answers``: see ``ripieno.conduct``.
        ``workspace`` is the folder of this run's tools, by default the assembly's; servers that were started stay in
        that one. Errors: ``InputError`` for unknown names and for an unfit workspace, before any request;
        ``UsageError`` if the assembly was never entered.
        """
        chosen, settings = self._choose(
            model=model,
            agent=agent,
            ensembles=ensembles,
            supervisor=supervisor,
            tools=tools,
            controls=controls,
            workspace=workspace,
        )
        settings |= {"limits": limits or settings["limits"], "watchers": self._watchers}
        settings |= {"owner": owner, "confirmer": confirmer, "auxdata": auxdata, "answers": answers}
        labels = {"agent": agent, "named_model": model if isinstance(model, str) else None}
        settings["labels"] = {key: value for key, value in labels.items() if value}
        return conduct(chosen, what, execution=self.execution, **settings)

    async def submit(
        self,
        what: str | Canister | Sequence[Canister],
        *,
        conversation: str = "",
        model: str = "",
        agent: str = "",
        tools: Sequence[str] | None = None,
        owner: str = "",
        workspace: str | os.PathLike[str] | None = None,
        anywhere: bool = False,
        priority: Priority = "normal",
        at: datetime.datetime | None = None,
        identifier: str = "",
    ) -> SubmittedRun:
        """Queues a run for a worker (``ripieno work``), and returns without waiting for it.

        ``conversation`` is the identifier of one to continue; runs of a conversation follow each other. The worker is
        one on this machine, which has the workspace; with ``anywhere``, any one, in its own. For an ``identifier`` that
        is known, nothing is queued, and its run is returned. ``at``: not before. Errors: ``InputError`` without a
        journal, for unknown names, a time that has passed, a secret in the message, or if the queue cannot be used.
        """
        recorder, said = self.execution.reporter.recorder, Conversation.of(what)
        submission = make_submission(
            self.loaded,
            recorder,
            dataclasses.replace(said, identifier=conversation or said.identifier),
            identifier=identifier,
            workspace=workspace,
            anywhere=anywhere,
            model=model,
            agent=agent,
            tools=None if tools is None else listed(tools),
            owner=owner,
            priority=priority,
        )
        return await run_in_thread(lambda: submit(submission, self.dispatcher, recorder, at=at), name="submission")

    @functools.cached_property
    def dispatcher(self) -> Dispatcher:
        """The queue of submitted runs. Errors: ``InputError`` if its engine is not installed."""
        return open_dispatcher(self.loaded, self.surroundings.secrets)

    def _choose(
        self,
        *,
        model: str | Model | None,
        agent: str | None,
        ensembles: Sequence[Ensemble] | None,
        supervisor: str | SupervisorCanister | None,
        tools: Sequence[str] | None,
        controls: Controls | None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> tuple[Model, dict[str, Any]]:
        """The model, and the further arguments of ``ripieno.conduct``. Errors: ``InputError`` for unknown names."""
        if ensembles is None and not self._entered:
            advice = "Use: async with ripieno.assemble(...) as assembly."
            raise UsageError(f"This assembly was not entered, so it has no tools yet. {advice}")
        enabled = self.ensembles if ensembles is None else only_ensembles(ensembles)
        limits, history = None, self.configuration.history
        descriptor = None if agent is None else self.access_agent(agent)
        chosen = model if isinstance(model, Model) else self._named(model, descriptor)
        if descriptor is not None:
            supervisor = supervisor or descriptor.instructions or None
            tools = descriptor.tools if tools is None else tools
            controls = controls or descriptor.controls
            limits, history = descriptor.limits, descriptor.history
        if workspace is not None:
            enabled = self._placement.place(enabled, workspace, self.surroundings)
        Offer.of(enabled, tools=tools)
        return chosen, {
            "ensembles": enabled,
            "tools": tools,
            "supervisor": supervisor,
            "controls": controls or self.configuration.controls,
            "limits": limits,
            "history": self._history(history),
        }
