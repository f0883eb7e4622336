"""The declarations of tools about stale results, and of ensembles about the budget of their results."""

import dataclasses
from collections.abc import Iterable, Mapping

from frozendict import frozendict

from ripieno.canisters import InvocationCanister
from ripieno.descriptors.templates import Template
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, ToolFault
from ripieno.values import Value


class _Key(Value, kw_only=True):
    """A template of a tool's ``supersedes``: the tool whose results become stale, and which of them."""

    tool: str
    template: Template


class Supersession(Value, kw_only=True):
    """The calls that make results stale, by the exposed names of tools; and the budgets of ensembles.

    A key such as ``read_file:{path}`` names a tool and is filled from the arguments of the call; a call that cannot
    fill it does not have it. The keys that a tool declares for itself identify its results, which never become stale
    without any. They become stale by a call with the same arguments, or with no arguments but those of the key: two
    reads of different lines of a file are both needed. ``ensembles`` has the ensemble of each tool that has a budget,
    ``budgets`` their tokens.
    """

    keys: frozendict[str, tuple[_Key, ...]] = frozendict()
    ensembles: frozendict[str, str] = frozendict()
    budgets: frozendict[str, int] = frozendict()

    @classmethod
    def of(cls, declared: Mapping[str, Iterable[str]]) -> "Supersession":
        """The declarations from the keys of each tool. Errors: ``InputError`` for an invalid template."""
        return cls(keys=frozendict({name: tuple(map(_read, texts)) for name, texts in declared.items()}))

    @classmethod
    def of_offer(cls, offer: Offer, *, stale: bool = True) -> "Supersession":
        """The declarations of offered tools: their policies, unless not ``stale``, and the budgets of their ensembles.

        A key names a tool of the same ensemble by its own name, or any tool as ``ensemble.tool``. A key of a tool that
        is not offered has no effect. Errors: ``InputError`` as above.
        """
        exposed = {invoker.identity: invoker.exposed for invoker in offer.everything}
        keys: dict[str, tuple[_Key, ...]] = {}
        for invoker in offer.everything if stale else ():
            if not invoker.policy.supersedes:
                continue
            own = f"{invoker.ensemble.name}."
            declared = map(_read, invoker.policy.supersedes)
            resolved = ((exposed.get(own + key.tool) or exposed.get(key.tool), key) for key in declared)
            keys[invoker.exposed] = tuple(
                dataclasses.replace(key, tool=tool) for tool, key in resolved if tool is not None
            )
        limited = [invoker for invoker in offer.everything if invoker.ensemble.tokens is not None]
        return cls(
            keys=frozendict(keys),
            ensembles=frozendict({invoker.exposed: invoker.ensemble.name for invoker in limited}),
            budgets=frozendict(
                {one.ensemble.name: one.ensemble.tokens for one in limited if one.ensemble.tokens is not None}
            ),
        )

    def __bool__(self) -> bool:
        """Whether anything is declared."""
        return any(self.keys.values()) or bool(self.budgets)

    def joined(self, later: "Supersession") -> "Supersession":
        """These declarations and later ones. A removed tool keeps its own, so that no result reappears."""
        return Supersession(
            keys=frozendict({**self.keys, **later.keys}),
            ensembles=frozendict({**self.ensembles, **later.ensembles}),
            budgets=frozendict({**self.budgets, **later.budgets}),
        )

    def makes_stale(self, call: InvocationCanister) -> frozenset[tuple[str, str]]:
        """The keys that a call makes stale: the tool, and the rest of the key."""
        if call.fault is not None:
            return frozenset()
        found: set[tuple[str, str]] = set()
        for key in self.keys.get(call.name, ()):
            try:
                # Values are encoded, so that keys are unambiguous.
                found.add((key.tool, key.template.segment(call.arguments)))
            except ToolFault:
                continue
        return frozenset(found)

    def covers(self, later: InvocationCanister, earlier: InvocationCanister) -> bool:
        """Whether the result of a later call with the same key replaces all of an earlier one's result."""
        if later.name != earlier.name or later.arguments == earlier.arguments:
            return True
        own = (key.template.placeholders for key in self.keys.get(later.name, ()) if key.tool == later.name)
        places = {name for names in own for name in names}
        return all(name in places for name, value in later.arguments.items() if value is not None)

    def is_known_by(self, call: InvocationCanister) -> frozenset[tuple[str, str]]:
        """The keys that identify a call's own result."""
        return frozenset(key for key in self.makes_stale(call) if key[0] == call.name)


def _read(text: str) -> _Key:
    template = Template.parse(text)
    tool, colon, _ = template.beginning.partition(":")
    if not tool or (not colon and template.literal is None):
        raise InputError(f'{text!r} names no tool. Write "TOOL:{{ARGUMENT}}", such as "read_file:{{path}}".')
    rest = template.parts[0] if template.parts else ""
    assert isinstance(rest, str)
    return _Key(tool=tool, template=Template(parts=(f"={rest[len(tool) :]}", *template.parts[1:])))
