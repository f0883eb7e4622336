"""``PlacedEnsemble``: an ensemble with the surroundings of one run, such as another workspace."""

import copy
import weakref
from collections.abc import Iterable

from frozendict import frozendict

from ripieno.ensembles.ensemble import Ensemble, Invoker
from ripieno.ensembles.surroundings import Surroundings


class PlacedEnsemble(Ensemble):
    """An ensemble with other surroundings. It shares the connection, and follows each change of the original.

    All that concerns the place of a call reads the surroundings of its ensemble, and so needs no further change.
    """

    def __init__(self, original: Ensemble, surroundings: Surroundings) -> None:
        super().__init__(
            original.name,
            configuration=original.configuration,
            prefix=original.prefix,
            required=original.required,
            description=original.description,
            tokens=original.tokens,
            surroundings=surroundings,
            max_parallel=original.max_parallel,
        )
        self.original = original
        following = weakref.WeakMethod(self._follow)

        def follow() -> None:
            if (method := following()) is not None:
                method()

        self._follow()
        weakref.finalize(self, original.watch(follow)).atexit = False

    def _follow(self) -> None:
        original = self.original
        self.connection, self.connects = original.connection, original.connects
        self._left_out = original.left_out
        if self.revision != original.revision:
            self.invokers = frozendict({name: self._move(one) for name, one in original.invokers.items()})
            self.revision = original.revision
        self._become(original.state)

    def _move(self, invoker: Invoker) -> Invoker:
        """The invoker with this ensemble."""
        moved = copy.copy(invoker)
        object.__setattr__(moved, "ensemble", self)
        return moved


def original_of(ensemble: Ensemble) -> Ensemble:
    """The ensemble that is connected: itself, or the one that a placed ensemble stands for."""
    return ensemble.original if isinstance(ensemble, PlacedEnsemble) else ensemble


def workspace_of(ensembles: Iterable[Ensemble], surroundings: Surroundings | None) -> str | None:
    """The workspace of a run with these ensembles, else that of the execution's ``surroundings``; None without any."""
    found = next((one.surroundings for one in ensembles if one.surroundings is not None), surroundings)
    return None if found is None else str(found.workspace)
