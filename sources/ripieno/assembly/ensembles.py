"""``ConnectedEnsembles``: the ensembles of a configuration, without anything that calls them."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from ripieno.assembly.availability import Absence, absences_of, disabled
from ripieno.assembly.configuration import LoadedConfiguration, prefix_of, variables_of
from ripieno.assembly.coverage.values import Coverage
from ripieno.assembly.failures import find_failures, find_unmatched
from ripieno.assembly.open_assemblies import marked
from ripieno.assembly.placement import Placement
from ripieno.assembly.plugins import find_missing
from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.names import split
from ripieno.ensembles import Ensemble, Invoker, Origin
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.opener import connect_all, connect_at_once, disconnect_all, needed_origins, opener, opens_nothing
from ripieno.ensembles.requirements import find_absent
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import (
    AssemblyFailure,
    ConfigurationInvalidity,
    InputError,
    NameAbsence,
    RipienoError,
    explain_absence,
)
from ripieno.sandbox import RoutedSpawner, Spawner


class ConnectedEnsembles:
    """The ensembles of a configuration, connected while it is entered with ``async with``. An ``Assembly`` calls them.

    Errors on entering: ``AssemblyFailure``, with every reason; then all ensembles are disconnected.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        *,
        spawner: Spawner | None = None,
        secrets: Mapping[str, str] | None = None,
        alert: Callable[[Alert], None] | None = None,
    ) -> None:
        self.loaded = loaded
        self.configuration = loaded.configuration
        self.ensembles: tuple[Ensemble, ...] = ()
        self._starting: tuple[Ensemble, ...] = ()
        self.absences: tuple[Absence, ...] = absences_of(loaded)
        #: The coverage of the environment, if a profile is named; set on entering.
        self.coverage: Coverage | None = None
        self.alerts: list[Alert] = []
        self._alert = alert
        self._placement = Placement(loaded)
        self._opened = contextlib.ExitStack()
        self._entered = False
        self.surroundings = self._placement.surroundings(
            spawner=spawner,
            secrets=variables_of(loaded, os.environ if secrets is None else secrets),
            alert=self._note,
        )

    def _note(self, alert: Alert) -> None:
        self.alerts.append(alert)
        del self.alerts[:-1000]  # The latest only, for programs that run for weeks.
        if self._alert is not None:
            self._alert(alert)

    async def __aenter__(self) -> Self:
        ensembles = self._prepare()
        if self.loaded.profile is not None:
            from ripieno.assembly.coverage.validation import cover  # Only few configurations name a profile.

            self.coverage = await run_in_thread(cover, self.loaded, self.surroundings, name="coverage")
            if self.coverage.lacking_tools or not self.coverage.fulfilled:
                self._note(Alert(message=self.coverage.summary()))
        with contextlib.ExitStack() as stack:
            stack.enter_context(marked(self.loaded.state))
            self._enter_stores(stack)
            await self._connect(ensembles)
            self._opened = stack.pop_all()
        self._entered = True
        return self

    def connect_at_once(self) -> bool:
        """Connects without an event loop if no ensemble opens anything; False if one does, or a profile is covered.

        For listings, instead of entering: tools cannot be called, and nothing is to be closed. The import and the start
        of a loop take a quarter of the time of one. Errors: ``AssemblyFailure``.
        """
        try:
            origins = self._origins()
        except RipienoError:
            return False  # Entering reports it, with the other failures.
        descriptors = {one.name: one for one in self.loaded.ensembles}
        surroundings = self.surroundings
        if self.loaded.profile or not all(opens_nothing(one, origins, surroundings) for one in descriptors.values()):
            return False
        ensembles = self._prepare()
        try:
            outcomes = [connect_at_once(one, descriptors[one.name], origins, self.surroundings) for one in ensembles]
            self._take(ensembles, outcomes)
        finally:
            self._placement.close()
        return True

    @property
    def connecting(self) -> tuple[str, ...]:
        """The names of the ensembles that are still connecting."""
        return tuple(one.name for one in self._starting if one.state == "connecting")

    async def __aexit__(self, *details: object) -> None:
        with self._opened:
            await self._close(self.ensembles)

    def _enter_stores(self, stack: contextlib.ExitStack) -> None:
        """Opens what calls need besides the ensembles, before those are connected; ``stack`` closes it after them."""

    async def _close(self, ensembles: Sequence[Ensemble]) -> None:
        await disconnect_all(ensembles)
        self._placement.close()

    def _prepare(self) -> list[Ensemble]:
        """The ensembles, not yet connected. Errors: ``AssemblyFailure``."""
        failures = find_failures(self.loaded)
        if isinstance(self.surroundings.spawner, RoutedSpawner):
            try:
                self.surroundings.spawner.other()
            except RipienoError as error:
                failures.append(error)
        if failures:
            raise AssemblyFailure("Start-up failed:", failures)
        origins = self._origins()
        ensembles: list[Ensemble] = []
        absent = find_absent(self.loaded.ensembles, self.loaded.known, self.surroundings)
        self.surroundings = dataclasses.replace(self.surroundings, absent=absent)
        for descriptor in self.loaded.ensembles:
            unmet = absent[descriptor.name]
            if unmet is None:
                ensembles.append(self._ensemble(descriptor, origins))
            else:
                self.absences += (Absence(name=descriptor.name, reason=f"{unmet}."),)
                self._note(Alert(message=f"Ensemble {descriptor.name!r} is left out: {unmet}."))
        for one in find_missing(self.loaded.registry, self.loaded.parts):
            self._note(Alert(message=f"{one.file}:{one.line}: {one.message}. {one.hint}"))
        for name, why in disabled(self.loaded).items():
            self._note(Alert(message=f"Ensemble {name!r} is left out: {why}"))
        return ensembles

    def _origins(self) -> dict[str, Origin]:
        """The origins that the ensembles need. Errors: those of ``Registry.resolve``."""
        names = {name for descriptor in self.loaded.ensembles for name in needed_origins(descriptor)}
        return {name: self.loaded.registry.resolve("origins", name) for name in names}

    def _ensemble(self, descriptor: EnsembleDescriptor, origins: Mapping[str, Origin]) -> Ensemble:
        return Ensemble(
            descriptor.name,
            opener=opener(descriptor, origins, self.surroundings),
            configuration=descriptor.configuration,
            prefix=prefix_of(descriptor),
            layer=descriptor.layer,
            required=descriptor.required,
            max_parallel=descriptor.max_parallel,
            tokens=descriptor.tokens,
            description=descriptor.description,
            surroundings=self.surroundings,
        )

    async def _connect(self, ensembles: Sequence[Ensemble]) -> None:
        """Connects all concurrently. An optional one that fails is left out; a required one ends the start-up."""
        self._starting = tuple(ensembles)
        outcomes = await connect_all(ensembles)
        try:
            self._take(ensembles, outcomes)
        except AssemblyFailure:
            await self._close(ensembles)
            raise

    def _take(self, ensembles: Sequence[Ensemble], outcomes: Sequence[RipienoError | None]) -> None:
        """Keeps the ensembles that were connected. Errors: ``AssemblyFailure``."""
        failures: list[RipienoError] = []
        connected: list[Ensemble] = []
        for ensemble, outcome in zip(ensembles, outcomes, strict=True):
            if outcome is None:
                connected.append(ensemble)
            elif ensemble.required:
                failures.append(outcome)
            else:
                why = explain_absence(ensemble.name, outcome)
                self.absences += (Absence(name=ensemble.name, reason=why),)
                self._note(Alert(message=f"Ensemble {ensemble.name!r} is left out: {why}"))
        try:
            Offer.of(connected)
        except ConfigurationInvalidity as clash:
            failures.append(clash)
        if unmatched := find_unmatched(self.loaded, {one.name: one for one in connected}):
            failures.append(ConfigurationInvalidity(unmatched))
        if failures:
            raise AssemblyFailure("Start-up failed:", failures)
        self.ensembles = tuple(connected)

    def access_ensemble(self, name: str) -> Ensemble:
        """The ensemble with a name. Errors: ``NameAbsence``, with the reason if it was left out."""
        for ensemble in self.ensembles:
            if ensemble.name == name:
                return ensemble
        for one in self.absences:
            if one.name == name and one.file is None:
                first = one.reason.partition("\n")[0]  # The rest, such as lines of the server, was in the alert.
                raise NameAbsence("ensemble", name, left_out=f"is not available: {first}")
        reasons = [one.reason for one in self.absences if one.name == name]
        if not reasons and name in self.loaded.known:
            reasons = [f'It is available, but not enabled. To enable it: include = ["{name}"] under [ensembles].']
        hint = " ".join(reasons) or self.loaded.registry.advice
        raise NameAbsence("ensemble", name, (one.name for one in self.ensembles), hint=hint)

    def access_invoker(self, identity: str) -> Invoker:
        """The invoker ``ensemble.tool``. Errors: ``NameAbsence``."""
        ensemble, tool = split(identity)
        if not tool:
            raise InputError(f"A tool is named ensemble.tool, such as io.read_file; not {identity!r}.")
        return self.access_ensemble(ensemble).access_invoker(tool)
