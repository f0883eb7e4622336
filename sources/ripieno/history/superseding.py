"""Results that later calls have made stale: they become short notes, where that saves more than it breaks."""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.contents import OpaqueContent, TextualContent
from ripieno.exceptions import InputError, ToolFault
from ripieno.history.cutting import counts
from ripieno.history.exchanges import asks
from ripieno.history.shown import Shown, remember
from ripieno.offers import Offer
from ripieno.templates import Template
from ripieno.tokens import ConversationTokenizer, EstimatingTokenizer

#: What stands in place of a stale result.
NOTE = "(Left out: stale since a later call of {name}.)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A template of a tool's ``supersedes``: whose results it makes stale, and which of them."""

    tool: str
    template: Template


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """Which calls make which results stale, by the names that a model sees.

    A key such as ``read_file:{path}`` names a tool, and is filled from the arguments of the call that has it. Results
    of that tool are known by the keys that it has of itself: a tool without any is never stale. A call with an argument
    that fills no place has no such key.
    """

    keys: frozendict[str, tuple[_Key, ...]]

    @classmethod
    def of(cls, declared: Mapping[str, Iterable[str]]) -> "Supersession":
        """From the keys of each tool. Errors: ``InputError`` for a template that cannot be read, or names no tool."""
        return cls(keys=frozendict({name: tuple(map(_read, texts)) for name, texts in declared.items()}))

    @classmethod
    def of_offer(cls, offer: Offer) -> "Supersession":
        """From the policies of what is offered. A key means a tool of the same ensemble, by its own name there."""
        exposed = {(invoker.ensemble.name, invoker.name): invoker.exposed for invoker in offer.invokers}
        return cls(
            keys=frozendict(
                {
                    invoker.exposed: tuple(
                        dataclasses.replace(key, tool=exposed.get((invoker.ensemble.name, key.tool), ""))
                        for key in map(_read, invoker.policy.supersedes)
                    )
                    for invoker in offer.invokers
                }
            )
        )

    def makes_stale(self, call: InvocationCanister) -> frozenset[tuple[str, str]]:
        """The keys that a call makes stale: the tool, and the rest of the key."""
        if call.fault is not None:
            return frozenset()
        found: set[tuple[str, str]] = set()
        for key in self.keys.get(call.name, ()):
            try:
                # Values are encoded, so that none of them can look like two.
                found.add((key.tool, key.template.segment(call.arguments)))
            except ToolFault:
                continue
        return frozenset(found)

    def is_known_by(self, call: InvocationCanister) -> frozenset[tuple[str, str]]:
        """The keys that a call's own result is known by."""
        return frozenset(key for key in self.makes_stale(call) if key[0] == call.name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Stale:
    """A stale result: where it stands, what takes its place, and the tokens that saves."""

    position: int
    note: ResultCanister
    saved: int


def supersede(
    canisters: Sequence[Canister],
    supersession: Supersession,
    *,
    weight: float = 1.0,
    tokenizer: ConversationTokenizer | None = None,
    memory: dict[object, Any] | None = None,
) -> Shown:
    """The canisters with notes in place of stale results: those after which a call of the same key has succeeded.

    The rule of costs: replacing a result breaks the provider's cache from there on. What stood after it in the last
    request must be read anew: its tokens, without those that are saved, are the cost. Of all ways to replace the stale
    results from one of them on, that one is taken whose saved tokens less ``weight`` times the cost are most, if they
    are more than 0. What has not been sent yet costs nothing. It is weighed whenever the model is asked and a
    result has become stale, so that what was shown before stays as it was. Nothing is left out, and ``excess`` is 0: it
    knows no budget.
    Errors: ``InputError`` for a weight below 0.
    """
    if weight < 0:
        raise InputError(f"A weight is 0 or more, not {weight}.")
    counting = tokenizer or EstimatingTokenizer()
    kept: dict[object, Any] = {} if memory is None else memory
    tokens = counts(canisters, counting, kept)
    stale = _stale(canisters, supersession, tokens, counting, kept)
    replaced: dict[int, _Stale] = {}
    waiting: dict[int, _Stale] = {}
    cuts = sent = looked = 0
    for end in asks(canisters):
        fresh = [one for position in range(looked, end) for one in stale.get(position, ())]
        looked = end
        waiting |= {one.position: one for one in fresh}
        if fresh:
            chosen = _choose(waiting, replaced, tokens, sent, weight)
            cuts += any(position < sent for position in chosen)
            replaced |= {position: waiting.pop(position) for position in chosen}
        sent = end
    shown = [replaced[place].note if place in replaced else one for place, one in enumerate(canisters)]
    return Shown(canisters=tuple(shown), cuts=cuts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Superseding:
    """``supersede`` as a strategy, to be chained before what cuts."""

    supersession: Supersession
    weight: float = 1.0
    tokenizer: ConversationTokenizer = dataclasses.field(default_factory=EstimatingTokenizer)

    async def show(
        self,
        canisters: Sequence[Canister],
        *,
        open: Collection[str] = (),  # noqa: ARG002  they have no results
        memory: dict[object, Any] | None = None,
    ) -> Shown:
        """As ``HistoryStrategy`` says."""
        return supersede(canisters, self.supersession, weight=self.weight, tokenizer=self.tokenizer, memory=memory)


def _read(text: str) -> _Key:
    template = Template.parse(text)
    tool, colon, _ = template.beginning.partition(":")
    if not tool or (not colon and template.literal is None):
        raise InputError(f'{text!r} names no tool: write "TOOL:{{ARGUMENT}}", such as "read_file:{{path}}".')
    rest = template.parts[0] if template.parts else ""
    assert isinstance(rest, str)
    return _Key(tool=tool, template=Template(parts=(f"={rest[len(tool) :]}", *template.parts[1:])))


def _stale(
    canisters: Sequence[Canister],
    supersession: Supersession,
    tokens: Sequence[int],
    tokenizer: ConversationTokenizer,
    memory: dict[object, Any],
) -> dict[int, list[_Stale]]:
    """What becomes stale by the result at each position."""
    calls: dict[str, InvocationCanister] = {}
    current: dict[tuple[str, str], list[int]] = {}
    gone: set[int] = set()
    found: dict[int, list[_Stale]] = {}
    for position, canister in enumerate(canisters):
        if isinstance(canister, InvocationCanister):
            calls[canister.identifier] = canister
        call = calls.pop(canister.invocation_id, None) if isinstance(canister, ResultCanister) else None
        if call is None or not isinstance(canister, ResultCanister):
            continue
        if canister.error is None:
            for earlier in itertools.chain.from_iterable(
                current.pop(key, ()) for key in sorted(supersession.makes_stale(call))
            ):
                old = canisters[earlier]
                if earlier in gone or not isinstance(old, ResultCanister):
                    continue
                gone.add(earlier)
                note = remember(memory, old, call.name, functools.partial(_note, old, call.name))
                saved = tokens[earlier] - counts((note,), tokenizer, memory)[0]
                if saved > 0:
                    found.setdefault(position, []).append(_Stale(position=earlier, note=note, saved=saved))
        if not any(isinstance(content, OpaqueContent) for content in canister.content):
            for key in supersession.is_known_by(call):
                current.setdefault(key, []).append(position)
    return found


def _note(old: ResultCanister, name: str) -> ResultCanister:
    return dataclasses.replace(old, content=(TextualContent(text=NOTE.format(name=name)),), error=None)


def _choose(
    waiting: Mapping[int, _Stale], replaced: Mapping[int, _Stale], tokens: Sequence[int], sent: int, weight: float
) -> list[int]:
    """Which stale results are replaced now, by the rule of costs. ``sent`` canisters were in the last request."""
    best, net, saved, cost = 0, 0.0, 0, 0
    order = sorted(waiting, reverse=True)
    after = sent
    most = sum(one.saved for one in waiting.values())
    for number, position in enumerate(order, 1):
        if most - weight * cost <= net:
            break  # Nothing before it can make up for what it costs.
        if position < after:
            cost += sum(
                tokens[place] - (replaced[place].saved if place in replaced else 0)
                for place in range(position + 1, after)
            )
            after = position
        saved += waiting[position].saved
        if saved - weight * cost > net:
            best, net = number, saved - weight * cost
    return order[:best]
