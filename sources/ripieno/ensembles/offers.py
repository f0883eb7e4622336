"""The offer of a turn: an ordered snapshot of invokers under their exposed names."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Controls, InvocationCanister
from ripieno.canisters.faults import Fault
from ripieno.descriptors.ensembles import is_foreign
from ripieno.descriptors.names import matches
from ripieno.ensembles.ensemble import Ensemble, Invoker
from ripieno.ensembles.tool_search import Catalogue, Helpers, choose_searchable, make_helpers, resolve_call
from ripieno.exceptions import ConfigurationInvalidity, NameAbsence, Problem, ToolFault, UsageError, nearest
from ripieno.jsonvalues import listed
from ripieno.storage.outputs import READER

#: Names in an error if none is similar to the one that the model used.
_LISTED = 24
#: Names of searchable tools in an error.
_SIMILAR = 3


class Offer:
    """Invokers in a fixed order, which is the same byte for byte (providers' caches depend on it).

    All of ``everything`` can be called. ``invokers`` are sent under ``names``: all but the ``searchable`` ones, with
    the ``helpers`` that find and call those. Immutable, except that protocols cache their list of tools in
    ``encodings``.
    """

    __slots__ = (
        "_by_name",
        "_catalogue",
        "encodings",
        "everything",
        "helpers",
        "invokers",
        "names",
        "reader",
        "searchable",
    )

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
            sent = (*sent, *self.helpers)
            self._by_name.update((one.exposed, one) for one in self.helpers)
        self.invokers: tuple[Invoker, ...] = sent
        self.names: tuple[str, ...] = tuple(invoker.exposed for invoker in sent)
        #: The exposed name of the tool that reads the rest of long results; None if it is not offered.
        self.reader = next((one.exposed for one in sent if one.identity == READER), None)
        self.encodings: dict[object, bytes] = {}

    @classmethod
    def of(
        cls,
        ensembles: Sequence[Ensemble],
        *,
        tools: Sequence[str] | None = None,
        left_out: Callable[[Invoker, Invoker], None] | None = None,
    ) -> "Offer":
        """The invokers of the ensembles in their order, or those that ``tools`` (patterns) match.

        A bundled tool that two bundled ensembles have is offered once, as a tool of the one with a configuration, or
        else of the first. Errors: ``ConfigurationInvalidity`` for two ensembles with one name, and for two other tools
        with one exposed name; ``NameAbsence`` for a pattern without a match. With ``left_out``, for later changes,
        none is raised: ``left_out(newcomer, holder)`` is called, and the newcomer is left out.
        """
        tools = None if tools is None else listed(tools)
        chosen: dict[str, Invoker] = {}
        clashes: list[Problem] = []
        used: set[str] = set()
        if left_out is None and len(ensembles) > 1:
            counts = Counter(ensemble.name for ensemble in ensembles)
            clashes += [_double(name, times) for name, times in counts.items() if times > 1]
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
                elif _is_same(invoker, holder):
                    preferred = invoker if invoker.configuration and not holder.configuration else holder
                    chosen[invoker.exposed] = preferred
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
        """The invoker with this exposed name, also a searchable one, which a model may remember and call."""
        return self._by_name.get(exposed)

    def direct(self, call: InvocationCanister) -> InvocationCanister:
        """The call that a call of ``call_tool`` names; any other call unchanged."""
        if self.helpers is None or call.name != self.helpers.call.exposed or call.fault is not None:
            return call
        schema = self.helpers.call.schema
        arguments = schema.coerce(schema.complete(call.arguments))
        try:
            return call if schema.validate(arguments) else resolve_call(call, arguments, self.helpers)
        except ToolFault:
            return call

    def sent(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names whose tools are sent; a request cannot mention others."""
        return tuple(name for name in names if name in self.names)

    def narrow(self, controls: Controls, *, strict: bool) -> Controls:
        """The controls with only the offered ones of the allowed tools, and with the helpers of searchable ones.

        Errors: ``NameAbsence``, if ``strict``, for an allowed tool that is not offered.
        """
        allowed = controls.allowed_tools or ()
        left = tuple(name for name in allowed if name in self._by_name)
        if strict and left != allowed:
            raise NameAbsence("offered tool", next(name for name in allowed if name not in left), self.names)
        if self.helpers is not None and any(one.exposed in left for one in self.searchable):
            left += tuple(one.exposed for one in self.helpers if one.exposed not in left)
        return controls if left == allowed else dataclasses.replace(controls, allowed_tools=left)

    def absence(self, name: str) -> Fault:
        """The fault of a call of an unknown name, with the most similar names, and how to call searchable ones."""
        known = nearest(name, self.names)
        searchable = self._similar(name) if self.helpers is not None else ()
        if known:
            advice = f"Did you mean {' or '.join(known)}?"
        elif searchable:
            advice = ""
        else:
            more = len(self.names) - _LISTED
            listed = ", ".join(self.names[:_LISTED]) or "none"
            advice = f"Known tools: {listed}{f' and {more} more' if more > 0 else ''}."
        if searchable and self.helpers is not None:
            search, call = self.helpers.search.exposed, self.helpers.call.exposed
            advice = (
                f"{advice} Available by search: {', '.join(searchable)}. See its arguments with "
                f'{search}(query="{searchable[0]}"), and call it with {call}(name="{searchable[0]}", arguments).'
            ).strip()
        return Fault(
            category="unknown_tool",
            message=f"There is no tool named {name!r}.",
            details=frozendict({"nearest": (*known, *searchable)}),
            suggestion=advice,
        )

    def _similar(self, name: str) -> tuple[str, ...]:
        """Names of searchable tools with this identity, a similar name, or a word in common."""
        by_identity = (one.exposed for one in self.searchable if one.identity == name)
        close = nearest(name, [one.exposed for one in self.searchable])
        similar = (one.exposed for one in self._catalogue.search(name, _SIMILAR))
        return tuple(dict.fromkeys((*by_identity, *close, *similar)))[:_SIMILAR]


def _is_same(one: Invoker, other: Invoker) -> bool:
    """Whether two ensembles have the same bundled tool. Their configurations may differ."""
    return (
        one.bundled is not None
        and one.bundled == other.bundled
        and (one.schema, one.description, one.policy) == (other.schema, other.description, other.policy)
    )


def _double(name: str, times: int) -> Problem:
    return Problem(
        message=f"{times} ensembles are named {name!r}.",
        hint="Give each its own name: rules, selections and the journal name a tool as ENSEMBLE.TOOL.",
    )


def _clash(newcomer: Invoker, holder: Invoker) -> Problem:
    both = [(one.name, one.prefix, one.layer) for one in (newcomer.ensemble, holder.ensemble)]
    return Problem(
        message=f"{newcomer.identity} and {holder.identity} would both be offered as {newcomer.exposed!r}.",
        hint=advise_on_clash(both),
    )


def advise_on_clash(both: Iterable[tuple[str, str, str | None]]) -> str:
    """The hint for two ensembles that would offer tools under one name. Each has a name, a prefix and a layer.

    Only the author of an ensemble can give it a prefix: one of the package or of a plugin is left out instead.
    """
    for name, prefix, layer in both:
        if prefix == name or (layer is not None and is_foreign(layer)):
            continue
        if layer is None:
            return f'Give {name!r} a prefix: Ensemble.of_functions("{name}", …, prefix="{name}").'
        return f'Give {name!r} a prefix, in its file: prefix = "{name}" under [ensemble].'
    return "Leave out one of the two ensembles: name the others with enabled = […] under [ensembles]."


def only_ensembles(given: Sequence[Ensemble]) -> tuple[Ensemble, ...]:
    """The ensembles, one or several. Errors: ``UsageError`` for names, functions and other values in place of them."""
    several: Any = given
    everything: tuple[Any, ...] = listed(several) if hasattr(several, "__iter__") else (several,)
    if names := [one for one in everything if isinstance(one, str)]:
        raise UsageError(
            f"conduct takes ensembles, not names. To load them: ripieno.assemble({{'ensembles': {names}}})"
        )
    if others := [one for one in everything if not isinstance(one, Ensemble)]:
        name = getattr(others[0], "__name__", type(others[0]).__name__)
        raise UsageError(f'conduct takes ensembles, not {name}. For functions: Ensemble.of_functions("mine", [{name}])')
    return everything
