"""What a turn offers: an ordered snapshot of invokers under the names that a model sees."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from frozendict import frozendict

from ripieno.canisters import Controls, InvocationCanister
from ripieno.canisters.faults import Fault
from ripieno.descriptors.names import matches
from ripieno.ensembles.ensemble import Ensemble, Invoker
from ripieno.ensembles.tool_search import Catalogue, Helpers, choose_searchable, make_helpers, meant
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem, ToolFault, nearest
from ripieno.storage.outputs import READER

#: How many names a model is told when none is like the one it used.
_TOLD = 24
#: How many searchable ones.
_LIKE = 3


class Offer:
    """Invokers in the order in which they are offered, which is the same byte for byte (caches depend on it).

    ``everything`` can be called. ``invokers`` are sent, and ``names`` are theirs: without those in ``searchable``, but
    with the ``helpers`` that find and call them. Immutable; ``encodings`` is where protocols keep the list of
    tools they made of it.
    """

    __slots__ = ("_by_name", "_catalogue", "encodings", "everything", "helpers", "invokers", "names", "searchable")

    def __init__(self, invokers: Iterable[Invoker], searchable: Collection[str] = ()) -> None:
        self.everything: tuple[Invoker, ...] = tuple(invokers)
        self._by_name = {invoker.exposed: invoker for invoker in self.everything}
        sent = self.everything
        self.searchable: tuple[Invoker, ...] = ()
        self.helpers: Helpers | None = None
        if searchable:
            sent = tuple(one for one in self.everything if one.exposed not in searchable)
            self.searchable = tuple(one for one in self.everything if one.exposed in searchable)
        self._catalogue = Catalogue(self.searchable)
        if self.searchable:
            self.helpers = make_helpers(self._catalogue, self._by_name)
            sent = (*sent, self.helpers.search, self.helpers.call)
            self._by_name.update((one.exposed, one) for one in (self.helpers.search, self.helpers.call))
        self.invokers: tuple[Invoker, ...] = sent
        self.names: tuple[str, ...] = tuple(invoker.exposed for invoker in sent)
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
        invokers = tuple(chosen.values())
        return cls(invokers, choose_searchable(invokers, ensembles))

    def named(self, exposed: str) -> Invoker | None:
        """The invoker of this name. One that is searchable is known as well: a model may remember it, and call it."""
        return self._by_name.get(exposed)

    @property
    def reader(self) -> str | None:
        """What a model calls the tool that reads on in results which are too long to be shown; None where it has none.

        It is known by its identity, whatever prefix it has.
        """
        return next((one.exposed for one in self.invokers if one.identity == READER), None)

    def direct(self, call: InvocationCanister) -> InvocationCanister:
        """The call of another tool that a call of ``call_tool`` stands for; any other call as it is."""
        if self.helpers is None or call.name != self.helpers.call.exposed or call.fault is not None:
            return call
        schema = self.helpers.call.schema
        arguments = schema.coerce(schema.complete(call.arguments))
        try:
            return call if schema.validate(arguments) else meant(call, arguments, self.helpers)
        except ToolFault:
            return call

    def sent(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names whose tools are sent: a request can say nothing of others."""
        return tuple(name for name in names if name in self.names)

    def narrow(self, controls: Controls, *, strict: bool) -> Controls:
        """The controls, with those of the allowed tools that are offered; where one is searchable, with its helpers.

        Errors: ``NameAbsence`` for one that is not, if it is ``strict``.
        """
        allowed = controls.allowed_tools or ()
        left = tuple(name for name in allowed if name in self._by_name)
        if strict and left != allowed:
            raise NameAbsence("offered tool", next(name for name in allowed if name not in left), self.names)
        if self.helpers is not None and any(self._catalogue.named(name) is not None for name in left):
            names = (self.helpers.search.exposed, self.helpers.call.exposed)
            left += tuple(name for name in names if name not in left)
        return controls if left == allowed else dataclasses.replace(controls, allowed_tools=left)

    def absence(self, name: str) -> Fault:
        """Why a call of a name that is not offered cannot run, with the names that are most like it.

        Searchable tools are among them, with how they are called.
        """
        known = nearest(name, self.names)
        searchable = self._like(name) if self.helpers is not None else ()
        if known:
            advice = f"Did you mean {' or '.join(known)}?"
        elif searchable:
            advice = ""
        else:
            more = len(self.names) - _TOLD
            advice = f"Known tools: {', '.join(self.names[:_TOLD]) or 'none'}{f' and {more} more' if more > 0 else ''}."
        if searchable and self.helpers is not None:
            search, call = self.helpers.search.exposed, self.helpers.call.exposed
            advice = (
                f"{advice} Not listed, but there: {', '.join(searchable)}. See its arguments with "
                f'{search}(query="{searchable[0]}"), and call it with {call}(name="{searchable[0]}", arguments).'
            ).strip()
        return Fault(
            category="unknown_tool",
            message=f"There is no tool named {name!r}.",
            details=frozendict({"nearest": (*known, *searchable)}),
            suggestion=advice,
        )

    def _like(self, name: str) -> tuple[str, ...]:
        """Names of searchable tools that are like a name, or have a word of it; also of one that has its ensemble's."""
        by_identity = (one.exposed for one in self.searchable if one.identity == name)
        close = nearest(name, [one.exposed for one in self.searchable])
        similar = (one.exposed for one in self._catalogue.search(name, _LIKE))
        return tuple(dict.fromkeys((*by_identity, *close, *similar)))[:_LIKE]


def _clash(newcomer: Invoker, holder: Invoker) -> Problem:
    return Problem(
        message=f"{newcomer.identity} and {holder.identity} would both be offered as {newcomer.exposed!r}.",
        hint=f'Give one of the ensembles a prefix: [ensemble] prefix = "{newcomer.ensemble.name}".',
    )
