"""What a turn offers: an ordered snapshot of invokers under the names that a model sees."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from frozendict import frozendict

from ripieno.controls import Controls
from ripieno.ensembles import Ensemble, Invoker
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem, nearest
from ripieno.faults import Fault
from ripieno.naming import matches

#: How many names a model is told when none is like the one it used.
_TOLD = 24


class Offer:
    """Invokers in the order in which they are offered, which is the same byte for byte (caches depend on it).

    Immutable; ``encodings`` is where protocols keep the list of tools they made of it.
    """

    __slots__ = ("_by_name", "encodings", "invokers", "names")

    def __init__(self, invokers: Iterable[Invoker]) -> None:
        self.invokers: tuple[Invoker, ...] = tuple(invokers)
        self._by_name = {invoker.exposed: invoker for invoker in self.invokers}
        self.names: tuple[str, ...] = tuple(self._by_name)
        self.encodings: dict[object, bytes] = {}

    @classmethod
    def of(
        cls,
        ensembles: Sequence[Ensemble],
        *,
        tools: Sequence[str] | None = None,
        left_out: Callable[[Invoker, Invoker], None] | None = None,
    ) -> "Offer":
        """Everything that the ensembles have, in their order, or what ``tools`` (patterns) name of it.

        Two tools of one exposed name are an error that names both, and so is a pattern that fits nothing. With
        ``left_out``, for what changes later, the newcomer is left out and ``left_out(newcomer, holder)`` is told.
        Errors: ``ConfigurationInvalidity`` for a clash, ``NameAbsence`` for a pattern.
        """
        chosen: dict[str, Invoker] = {}
        clashes: list[Problem] = []
        used: set[str] = set()
        for ensemble in ensembles:
            for invoker in ensemble.invokers.values():
                if tools is not None:
                    fitting = [pattern for pattern in tools if matches(pattern, invoker.identity)]
                    used.update(fitting)
                    if not fitting:
                        continue
                holder = chosen.get(invoker.exposed)
                if holder is None:
                    chosen[invoker.exposed] = invoker
                elif left_out is not None:
                    left_out(invoker, holder)
                else:
                    clashes.append(_clash(invoker, holder))
        if clashes:
            raise ConfigurationInvalidity(clashes)
        for pattern in tools or ():
            if pattern not in used and left_out is None:
                known = [invoker.identity for ensemble in ensembles for invoker in ensemble.invokers.values()]
                raise NameAbsence("tool", pattern, known)
        return cls(chosen.values())

    def named(self, exposed: str) -> Invoker | None:
        """The invoker that a model sees under this name."""
        return self._by_name.get(exposed)

    def narrow(self, controls: Controls, *, strict: bool) -> Controls:
        """The controls, with those of the allowed tools that are offered.

        Errors: ``NameAbsence`` for one that is not, if it is ``strict``.
        """
        allowed = controls.allowed_tools or ()
        left = tuple(name for name in allowed if name in self._by_name)
        if left == allowed:
            return controls
        if strict:
            raise NameAbsence("offered tool", next(name for name in allowed if name not in left), self.names)
        return dataclasses.replace(controls, allowed_tools=left)

    def absence(self, name: str) -> Fault:
        """Why a call of a name that is not offered cannot run, with the names that are most like it."""
        known = nearest(name, self.names)
        if known:
            advice = f"Did you mean {' or '.join(known)}?"
        else:
            more = len(self.names) - _TOLD
            advice = f"Known tools: {', '.join(self.names[:_TOLD]) or 'none'}{f' and {more} more' if more > 0 else ''}."
        return Fault(
            category="unknown_tool",
            message=f"There is no tool named {name!r}.",
            details=frozendict({"nearest": known}),
            suggestion=advice,
        )


def _clash(newcomer: Invoker, holder: Invoker) -> Problem:
    return Problem(
        message=f"{newcomer.identity} and {holder.identity} would both be offered as {newcomer.exposed!r}.",
        hint=f'Give one of the ensembles a prefix: [ensemble] prefix = "{newcomer.ensemble.name}".',
    )
