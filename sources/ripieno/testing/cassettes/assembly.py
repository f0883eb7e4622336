"""Assemblies whose runs are recorded, replayed, or continued after the end of a cassette."""

import abc
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from ripieno.approvals import Answer, Confirmer, Given
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration, load_own_configuration
from ripieno.assembly.protection import secrets_among, withheld
from ripieno.canisters import Canister, Controls, Conversation, SupervisorCanister
from ripieno.canisters.controls import Limits
from ripieno.conducting import Run, Watcher
from ripieno.ensembles import Ensemble
from ripieno.ensembles.surroundings import Tap
from ripieno.exceptions import InputError
from ripieno.models import Model


class Cassette(abc.ABC):
    """A recorder or a replay. As a context manager, it closes itself."""

    #: Whether everything comes from the cassette.
    replays = False
    #: Receives messages to and from MCP servers; None if they are not recorded.
    tap: Tap | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027  a replay has nothing to close
        """Ends a recording; does nothing for a replay. May be called twice."""

    def assemble(self, configuration: Any = None, **settings: Any) -> "CassetteAssembly":
        """As ``ripieno.assemble``: runs are recorded or replayed. A replay connects nothing, unless it is a fork."""
        places = {name: settings.pop(name) for name in ("workspace", "places", "project", "layers") if name in settings}
        return CassetteAssembly(load_own_configuration(configuration, **places), cassette=self, **settings)

    def begins(self) -> Conversation | None:
        """The beginning of the next recorded run, if any."""
        return None

    @abc.abstractmethod
    def confirmer(self, inner: Confirmer | None = None) -> Confirmer:
        """The confirmer for an execution that uses the cassette."""

    @abc.abstractmethod
    def hide(self, secrets: Iterable[str]) -> None:
        """Keeps these secrets out of the cassette."""

    @abc.abstractmethod
    def conduct(self, model: Any, what: Any, *, execution: Any = None, **settings: Any) -> Run:
        """As ``ripieno.conduct``."""


class CassetteAssembly(Assembly):
    """An assembly with a cassette. A pure replay connects nothing and needs no model."""

    def __init__(
        self,
        loaded: LoadedConfiguration,
        *,
        cassette: Cassette,
        confirmer: Confirmer | None = None,
        watchers: Sequence[Watcher] = (),
        **settings: Any,
    ) -> None:
        super().__init__(loaded, confirmer=cassette.confirmer(confirmer), **settings)
        self._cassette = cassette
        self._watchers = tuple(watchers)
        self.surroundings = dataclasses.replace(self.surroundings, tap=cassette.tap)
        variables = self.surroundings.secrets
        cassette.hide((*withheld(loaded, variables), *secrets_among(variables)))

    async def __aenter__(self) -> Self:
        return self if self._cassette.replays else await super().__aenter__()

    def conduct(
        self,
        what: str | Canister | Sequence[Canister] | Conversation | None = None,
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
        """As ``Assembly.conduct``. A replay does not need ``what``."""
        agents = self.configuration.agents
        descriptor = agents[agent] if agent is not None and agent in agents else None
        common: dict[str, Any] = {"owner": owner, "confirmer": confirmer, "auxdata": auxdata, "answers": answers}
        common["watchers"] = self._watchers
        if self._cassette.replays:
            instructions = supervisor or (None if descriptor is None else descriptor.instructions) or None
            return self._cassette.conduct(None, what, execution=self.execution, supervisor=instructions, **common)
        begun = self._cassette.begins() if what is None else None
        what = what if begun is None else begun.canisters
        if what is None:
            raise InputError("There is nothing to conduct. Give a text, canisters or a conversation.")
        chosen, settings = self._choose(
            model=model,
            agent=agent,
            ensembles=ensembles,
            supervisor=supervisor,
            tools=tools,
            controls=controls,
            workspace=workspace,
        )
        # Summaries are not recorded: the model gets the whole conversation.
        del settings["history"]
        settings["limits"] = limits or settings["limits"]
        return self._cassette.conduct(chosen, what, execution=self.execution, **settings, **common)
