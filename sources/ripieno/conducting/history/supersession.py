"""Which calls make which results stale, and how much room the results of an ensemble have: what tools declare."""

import dataclasses
from collections.abc import Iterable, Mapping

from frozendict import frozendict

from ripieno.canisters import InvocationCanister
from ripieno.descriptors.templates import Template
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, ToolFault


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A template of a tool's ``supersedes``: whose results it makes stale, and which of them."""

    tool: str
    template: Template


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """Which calls make which results stale, by the names that a model sees; and the budgets of ensembles.

    A key such as ``read_file:{path}`` names a tool, and is filled from the arguments of the call that has it. Results
    of that tool are known by the keys that it has of itself: a tool without any is never stale. A call with an argument
    that fills no place has no such key. A tool's own results become stale by a call with the same arguments, or with
    none but those of its key: whoever reads other lines of a file needs both.

    ``ensembles`` has the ensemble of each tool that has a budget, ``budgets`` their tokens.
    """

    keys: frozendict[str, tuple[_Key, ...]] = frozendict()  # noqa: RUF009
    ensembles: frozendict[str, str] = frozendict()  # noqa: RUF009
    budgets: frozendict[str, int] = frozendict()  # noqa: RUF009

    @classmethod
    def of(cls, declared: Mapping[str, Iterable[str]]) -> "Supersession":
        """From the keys of each tool. Errors: ``InputError`` for a template that cannot be read, or names no tool."""
        return cls(keys=frozendict({name: tuple(map(_read, texts)) for name, texts in declared.items()}))

    @classmethod
    def of_offer(cls, offer: Offer, *, stale: bool = True) -> "Supersession":
        """From what is offered: its policies, unless not ``stale``, and the budgets of its ensembles.

        A key means a tool of the same ensemble, by its own name there; or of any, as ``ensemble.tool``. One that names
        what is not offered makes nothing stale. Errors: ``InputError`` as above.
        """
        exposed = {invoker.identity: invoker.exposed for invoker in offer.everything}
        keys: dict[str, tuple[_Key, ...]] = {}
        for invoker in offer.everything if stale else ():
            if not invoker.policy.supersedes:
                continue
            own = f"{invoker.ensemble.name}."
            read = map(_read, invoker.policy.supersedes)
            meant = ((exposed.get(own + key.tool) or exposed.get(key.tool), key) for key in read)
            keys[invoker.exposed] = tuple(
                dataclasses.replace(key, tool=tool) for tool, key in meant if tool is not None
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
        """Whether anything at all is declared."""
        return any(self.keys.values()) or bool(self.budgets)

    def joined(self, later: "Supersession") -> "Supersession":
        """With what was declared later. A tool that is gone keeps what it had, so that nothing comes back."""
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
                # Values are encoded, so that none of them can look like two.
                found.add((key.tool, key.template.segment(call.arguments)))
            except ToolFault:
                continue
        return frozenset(found)

    def covers(self, later: InvocationCanister, earlier: InvocationCanister) -> bool:
        """Whether a call of the same key leaves nothing of an earlier one's result that it does not say itself."""
        if later.name != earlier.name or later.arguments == earlier.arguments:
            return True
        own = (key.template.placeholders for key in self.keys.get(later.name, ()) if key.tool == later.name)
        places = {name for names in own for name in names}
        return all(name in places for name, value in later.arguments.items() if value is not None)

    def is_known_by(self, call: InvocationCanister) -> frozenset[tuple[str, str]]:
        """The keys that a call's own result is known by."""
        return frozenset(key for key in self.makes_stale(call) if key[0] == call.name)


def _read(text: str) -> _Key:
    template = Template.parse(text)
    tool, colon, _ = template.beginning.partition(":")
    if not tool or (not colon and template.literal is None):
        raise InputError(f'{text!r} names no tool: write "TOOL:{{ARGUMENT}}", such as "read_file:{{path}}".')
    rest = template.parts[0] if template.parts else ""
    assert isinstance(rest, str)
    return _Key(tool=tool, template=Template(parts=(f"={rest[len(tool) :]}", *template.parts[1:])))
