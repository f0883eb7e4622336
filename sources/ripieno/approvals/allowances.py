"""Allowances: what a person has allowed with *always*, for one owner and one conversation, until it is taken back.

They are in memory and end with the program. Before a person gives one, ``ways`` says what it allows.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ripieno.approvals.visible_text import visible
from ripieno.canisters.faults import Effect
from ripieno.jsonvalues import canonical, digest, freeze, parse
from ripieno.storage.records import Record
from ripieno.values import Value


class Scope(Protocol):
    """The owner of a call, such as a key of the gateway, and its conversation."""

    @property
    def owner(self) -> str: ...

    @property
    def conversation(self) -> str: ...


class Way(Value, kw_only=True):
    """One way to allow later calls, as a person is shown it: which ``calls``, and on which ``terms``."""

    exact: bool
    calls: str
    terms: str


_TERMS = (
    "They run without a question, as do those that wait now, in this conversation only, until this program ends or you "
    "take it back. "
    "Rules that ask or deny still apply."
)


def ways(tool: str, effect: Effect) -> Sequence[Way]:
    """The ways in which later calls of a tool can be allowed. A destructive one only with exact arguments."""
    calls = f"Later calls of {visible(tool)} with"
    either = Way(exact=False, calls=f"{calls} any arguments", terms=_TERMS)
    exactly = Way(exact=True, calls=f"{calls} exactly these arguments", terms=_TERMS)
    return (exactly,) if effect == "destructive" else (either, exactly)


class Allowance(Value, kw_only=True):
    """A permission for later calls of a tool: with any arguments, or with exactly ``arguments``, as canonical JSON."""

    identifier: str
    tool: str
    arguments: str | None
    at: datetime.datetime

    def __str__(self) -> str:
        exactly = "any arguments" if self.arguments is None else f"exactly {visible(self.arguments)}"
        return f"{visible(self.tool)} with {exactly}"

    def mapping(self) -> dict[str, Any]:
        """The JSON form, for a person: every character of its texts is visible."""
        return {
            "identifier": self.identifier,
            "tool": visible(self.tool),
            "arguments": None if self.arguments is None else visible(self.arguments),
            "at": self.at.isoformat(),
        }

    def revocation(self, owner: str, conversation: str) -> Record:
        """The record that a person has taken it back."""
        exact = {} if self.arguments is None else {"arguments": parse(self.arguments)}
        rule = f"{self.tool} with {'exactly these' if exact else 'any'} arguments"
        details = {"rule": rule, "allowed": self.at.isoformat(), **exact}
        return Record(stage="revoked", conversation=conversation, turn=0, tool=self.tool, owner=owner, details=details)


class Allowances:
    """The allowances of all owners. Each counts for its owner and its conversation, and for no other.

    They apply to calls that need confirmation only because of their effect; they weaken no rule. A destructive tool is
    allowed only with exact arguments. One that is taken back no longer applies to any call that has not started.
    """

    def __init__(self) -> None:
        #: By owner and conversation, then by identifier; the oldest first.
        self._given: dict[tuple[str, str], dict[str, Allowance]] = {}

    def add(self, scope: Scope, identity: str, effect: Effect, arguments: Mapping[str, Any], *, exact: bool) -> None:
        """Allows a tool, or with ``exact`` a tool with these arguments. Errors: ``JsonInvalidity``."""
        text = canonical(freeze(arguments)).decode() if exact or effect == "destructive" else None
        identifier = _identify(identity, None if text is None else arguments)
        at = datetime.datetime.now(datetime.UTC)
        given = self._given.setdefault((scope.owner, scope.conversation), {})
        given[identifier] = Allowance(identifier=identifier, tool=identity, arguments=text, at=at)

    def allows(self, scope: Scope, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> bool:
        """Whether a call was allowed: by its tool's full name, or with exactly these arguments."""
        given = self._given.get((scope.owner, scope.conversation))
        if not given:
            return False
        if effect != "destructive" and _identify(identity, None) in given:
            return True
        return _identify(identity, arguments) in given

    def of(self, owner: str) -> Mapping[str, Sequence[Allowance]]:
        """The allowances of an owner, by conversations."""
        return {name: tuple(given.values()) for (one, name), given in self._given.items() if one == owner and given}

    def take_back(self, owner: str, conversation: str, identifier: str) -> Allowance | None:
        """Ends an allowance and returns it: the next call asks again. None if there is none."""
        return self._given.get((owner, conversation), {}).pop(identifier, None)

    def forget(self, owner: str, conversation: str) -> None:
        """Ends all allowances of a conversation."""
        self._given.pop((owner, conversation), None)


def _identify(tool: str, arguments: Mapping[str, Any] | None) -> str:
    return digest([tool] if arguments is None else [tool, digest(arguments)])[:32]
