"""The tools of a request that run here: the operator's ensembles, and bindings of hosted tools and labels.

An address in a request is not read: a label names an ensemble that the operator declared, or nothing.
"""

import dataclasses
import glob
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ripieno.assembly import Assembly
from ripieno.canisters import Controls
from ripieno.descriptors import GatewayDescriptor
from ripieno.ensembles import Definition, Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import NameAbsence, RequestInvalidity
from ripieno.models.protocol import Asked, HostedTool
from ripieno.models.protocols.common.tools import hosted_named
from ripieno.values import Value

#: The kind of hosted tools whose label names an ensemble.
_SERVER = "mcp"
#: The ensemble of a client's own tools. No descriptor can have its name.
_CLIENT = "Client"
#: The maximum number of reported kinds without a binding, and of characters of their names.
_REPORTED = 256
_SHOWN = 100


class Offering(Value, kw_only=True):
    """The tools of a request's model. ``tools`` are the patterns that select from ``ensembles``.

    ``patterns`` are those for our tools. ``ours`` are the exposed names of tools that run here, ``theirs`` those of the
    client's own. ``controls`` are those of the request, with the names of the tools that hosted ones are bound to.
    """

    ensembles: tuple[Ensemble, ...]
    tools: tuple[str, ...]
    patterns: tuple[str, ...]
    ours: frozenset[str]
    theirs: frozenset[str]
    controls: Controls


class Hosting:
    """Finds the tools of each request that run here.

    ``warn`` is called once for each kind of tool without a binding. Errors: ``NameAbsence`` if a binding names an
    ensemble or a tool that is not enabled.
    """

    def __init__(self, assembly: Assembly, descriptor: GatewayDescriptor, warn: Callable[[str], None]) -> None:
        for name in (*descriptor.ensembles, *descriptor.mcp):
            assembly.access_ensemble(name)
        for identity in descriptor.hosted.values():
            assembly.access_invoker(identity)
        self._assembly = assembly
        self._descriptor = descriptor
        self._warn = warn
        self._reported: set[str] = set()

    def offer(self, asked: Asked) -> Offering | None:
        """The tools of this request that run here; None if there are none.

        Errors: ``RequestInvalidity`` for a hosted tool without a binding, if strict, for a client's tool with the name
        of one of ours, and for the choice of a tool that neither the request nor we have; ``NameAbsence`` for an
        unknown tool.
        """
        if not (asked.hosted or asked.undeclared or self._descriptor.ensembles):
            return None
        bound = {tool: self._bound(tool) for tool in dict.fromkeys(asked.hosted)}
        for tool, invokers in bound.items():
            if invokers is None:
                self._leave_out(tool)
        chosen = self._choose(bound)
        ours = {one.exposed: one for one in chosen}
        for name, refusal in asked.undeclared.items():
            if name not in ours:
                raise refusal
        if not chosen:
            return None
        ensembles = list(dict.fromkeys(one.ensemble for one in chosen))
        patterns = mine = tuple(_patterns(chosen, ensembles))
        clients = Ensemble.of_request(asked.tools, _CLIENT)
        theirs = frozenset(one.exposed for one in clients.invokers.values())
        for name in sorted(theirs & ours.keys()):
            raise RequestInvalidity(
                f"The tool {name!r} of the request has the same name as one that runs here ({ours[name].identity}). "
                "Rename it, or leave it out.",
                parameter="tools",
            )
        if theirs:
            # First, so that a client's tool keeps its name, even if one of ours is renamed later.
            ensembles.insert(0, clients)
            patterns += (_CLIENT,)
        controls = self.resolve(asked.controls)
        offer = Offer.of(ensembles, tools=patterns)
        choice = controls.tool_choice
        if choice not in (None, "auto", "none", "required") and offer.named(choice) is None:
            raise NameAbsence("tool", choice[:_SHOWN], offer.names)
        return Offering(
            ensembles=tuple(ensembles),
            tools=patterns,
            patterns=mine,
            ours=frozenset(one.exposed for one in (*offer.everything, *offer.invokers) if one.hosted == "here"),
            theirs=theirs,
            controls=controls,
        )

    def _choose(self, bound: Mapping[HostedTool, Sequence[Invoker] | None]) -> list[Invoker]:
        """The invokers that run here: all of the operator's ensembles, unless the request narrows one by its label."""
        labels = {tool.label for tool, invokers in bound.items() if tool.kind == _SERVER and invokers is not None}
        usual = [self._assembly.access_ensemble(name) for name in self._descriptor.ensembles if name not in labels]
        chosen = [invoker for ensemble in usual for invoker in ensemble.invokers.values()]
        for invokers in bound.values():
            chosen += invokers or ()
        return list(dict.fromkeys(chosen))

    def _bound(self, tool: HostedTool) -> Sequence[Invoker] | None:
        """The invokers for a hosted tool; None without a binding. Errors: ``NameAbsence``."""
        if tool.kind == _SERVER:
            return self._served(tool)
        identity = self._descriptor.hosted.get(tool.kind)
        if identity is None:
            return None
        try:
            return (self._assembly.access_invoker(identity),)
        except NameAbsence:
            return None  # Its server no longer offers it.

    def _served(self, tool: HostedTool) -> Sequence[Invoker] | None:
        if tool.label not in self._descriptor.mcp and tool.label not in self._descriptor.ensembles:
            return None
        invokers = tuple(self._assembly.access_ensemble(tool.label).invokers.values())
        if tool.names is None:
            return invokers
        wanted = set(tool.names)
        known = {name for one in invokers for name in (one.name, one.exposed)}
        for name in tool.names:
            if name not in known:
                raise NameAbsence(f"tool of {tool.label!r}", name[:_SHOWN], (one.name for one in invokers))
        return [one for one in invokers if one.name in wanted or one.exposed in wanted]

    def _leave_out(self, tool: HostedTool) -> None:
        """Reports a tool without a binding. Errors: ``RequestInvalidity``, if strict."""
        if tool.kind == _SERVER:
            what, key = f"an MCP server labelled {tool.label[:_SHOWN]!r}", f"mcp = [{tool.label[:_SHOWN]!r}]"
        else:
            what, key = f"a tool of the kind {tool.kind[:_SHOWN]!r}", f'{tool.kind[:_SHOWN]!r} = "ensemble.tool"'
        if self._descriptor.strict:
            raise RequestInvalidity(
                f"There is no binding here for {what}: leave it out of the tools.", parameter="tools"
            )
        if what not in self._reported and len(self._reported) < _REPORTED:
            self._reported.add(what)
            where = "[gateway]" if tool.kind == _SERVER else "[gateway.hosted]"
            missing = f"A client requested {what}, which is not offered: it has no binding."
            self._warn(f"{missing} To run it here: {key} under {where}.")

    def resolve(self, controls: Controls) -> Controls:
        """The controls with the names of the tools that hosted ones are bound to. Errors: ``RequestInvalidity``."""
        choice, allowed = controls.tool_choice, controls.allowed_tools
        changed = controls
        named = None if choice is None else hosted_named(choice)
        if named is not None:
            names = self._names_of(named)
            if not names:
                raise RequestInvalidity("The tool choice is a tool that does not run here.", parameter="tool_choice")
            # No control means a choice among several.
            changed = dataclasses.replace(changed, tool_choice=names[0] if len(names) == 1 else "required")
        if allowed is not None and any(map(hosted_named, allowed)):
            tools = ((word, hosted_named(word)) for word in allowed)
            settled = [name for word, tool in tools for name in ((word,) if tool is None else self._names_of(tool))]
            changed = dataclasses.replace(changed, allowed_tools=tuple(dict.fromkeys(settled)))
        return changed

    def _names_of(self, tool: HostedTool) -> Sequence[str]:
        return [one.exposed for one in self._bound(tool) or ()]


def _patterns(chosen: Collection[Invoker], ensembles: Iterable[Ensemble]) -> Iterable[str]:
    """Patterns that match only the chosen invokers. Names are escaped, because servers choose them."""
    for ensemble in ensembles:
        mine = [one for one in chosen if one.ensemble is ensemble]
        if len(mine) == len(ensemble.invokers):
            yield ensemble.name
        else:
            yield from (glob.escape(one.identity) for one in mine)


#: The maximum number of cached offers.
_MOST = 64
#: Characters of tools that are cached.
_LONGEST = 256 * 1024

_Tools = tuple[Definition, ...]


class Offers:
    """A cache of offers of clients' tools, by caller. Protocols return the same tools for the same request."""

    def __init__(self) -> None:
        #: By caller and the identity of the tools, which stays unique while they are cached.
        self._kept: OrderedDict[tuple[str, int], tuple[_Tools, Offer]] = OrderedDict()

    def of(self, caller: str, tools: _Tools) -> Offer:
        """The offer of these tools, which the caller runs. Errors: ``InputError``."""
        key = (caller, id(tools))
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[1]
        offer = Offer(Ensemble.of_request(tools).invokers.values())
        # Long ones are not cached by protocols either: they would be kept here for nothing.
        if sum(len(one.schema.encoded) + len(one.description) for one in tools) <= _LONGEST:
            self._kept[key] = (tools, offer)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return offer
