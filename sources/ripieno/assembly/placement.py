"""``Placement``: the surroundings of an assembly's tools, in its own workspace and in those that runs name."""

import dataclasses
import os
import pathlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.protection import beneath, protected_by, sandbox_of
from ripieno.assembly.workspaces import keep_apart, keep_code
from ripieno.canisters.events import Alert
from ripieno.descriptors.named_files import NamedFiles
from ripieno.ensembles import Ensemble, Surroundings
from ripieno.ensembles.placed import PlacedEnsemble, original_of
from ripieno.exceptions import AssemblyFailure, InputError, RipienoError
from ripieno.sandbox import RoutedSpawner, Sandbox, Spawner
from ripieno.sandbox.processes import LocalSpawner
from ripieno.storage.outputs import Outputs
from ripieno.storage.undo import UndoLog

#: Workspaces whose ensembles are kept between runs; the least recently used is forgotten.
MOST_WORKSPACES = 64


@dataclasses.dataclass(slots=True)
class _Place:
    """A workspace of runs: its surroundings, and the ensembles that were used there."""

    surroundings: Surroundings
    ensembles: dict[Ensemble, PlacedEnsemble] = dataclasses.field(default_factory=dict[Ensemble, PlacedEnsemble])


class Placement:
    """Makes the surroundings of each workspace. Sandboxes are kept until ``close``, since programs may run on."""

    def __init__(self, loaded: LoadedConfiguration) -> None:
        self._loaded = loaded
        self._sandboxes: dict[pathlib.Path, Sandbox] = {}
        self._places: OrderedDict[pathlib.Path, _Place] = OrderedDict()

    def surroundings(
        self, *, spawner: Spawner | None, secrets: Mapping[str, str], alert: Callable[[Alert], None]
    ) -> Surroundings:
        """The surroundings in the assembly's own workspace."""
        loaded = self._loaded
        return Surroundings(
            spawner=self._route(spawner or LocalSpawner()),
            secrets=secrets,
            alert=alert,
            pins=loaded.pins,
            journal=loaded.journal,
            named=loaded.named,
            allow=loaded.configuration.environment,
            search_over=loaded.configuration.search_over,
            **self._of_workspace(loaded),
        )

    def place(
        self, ensembles: Sequence[Ensemble], workspace: str | os.PathLike[str], surroundings: Surroundings
    ) -> tuple[Ensemble, ...]:
        """The ensembles as a run in another workspace uses them. ``surroundings`` are those of the assembly.

        Errors: ``InputError`` for a path that is no folder, or contains the state; ``AssemblyFailure`` for several
        reasons.
        """
        path = pathlib.Path(workspace).absolute()
        if not path.is_dir():
            raise InputError(f"The workspace {path} is not a folder.")
        if path not in self._places:
            self._places[path] = _Place(self._enter(path, surroundings))
        self._places.move_to_end(path)
        while len(self._places) > MOST_WORKSPACES:
            self._places.popitem(last=False)
        place, originals = self._places[path], [original_of(one) for one in ensembles]
        for one in originals:
            # Tools of a request run elsewhere, and are for one run: nothing of them is placed or kept.
            runs_here = not one.invokers or any(tool.hosted != "caller" for tool in one.invokers.values())
            if one not in place.ensembles and runs_here:
                place.ensembles[one] = PlacedEnsemble(one, place.surroundings)
        return tuple(place.ensembles.get(one, one) for one in originals)

    def _enter(self, path: pathlib.Path, surroundings: Surroundings) -> Surroundings:
        failures: list[RipienoError] = []
        named = NamedFiles(path)
        keep_code(named, self._loaded.ensembles, failures)
        state = self._loaded.state
        if state is not None:
            keep_apart(state, path, self._loaded.configuration.sandbox, failures)
        if failures:
            raise failures[0] if len(failures) == 1 else AssemblyFailure("A run cannot begin:", failures)
        journal = None if state is None else UndoLog(state, path)
        moved = dataclasses.replace(self._loaded, workspace=path, named=named)
        return dataclasses.replace(surroundings, journal=journal, named=named, **self._of_workspace(moved))

    def _of_workspace(self, loaded: LoadedConfiguration) -> dict[str, Any]:
        path = loaded.workspace
        sandbox = self._sandboxes.setdefault(path, sandbox_of(loaded))
        return {
            "workspace": path,
            "sandbox": sandbox,
            "protected": beneath(path, protected_by(loaded)),
            "outputs": None if loaded.state is None else Outputs(loaded.state, path),
        }

    def _route(self, here: Spawner) -> Spawner:
        provider = self._loaded.configuration.sandbox.provider
        if provider is None:
            return here

        def provide() -> Any:
            return self._loaded.registry.resolve("sandboxes", provider)()

        return RoutedSpawner(here, provide)

    def close(self) -> None:
        """Closes the sandboxes. Call it when no process runs any more."""
        for sandbox in self._sandboxes.values():
            sandbox.close()
