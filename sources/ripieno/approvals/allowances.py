"""Allowances: what a person has allowed with *always*, for one owner and one conversation, until it is taken back.

They are in memory and end with the program; those of submitted runs are in the journal, too (``recorded_allowances``).
Before a person gives one, ``ways`` says what it allows.
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
    "They run without a question, as do those that wait now, in this conversation only, {end}. "
    "Rules that ask or deny still apply."
)
_UNTIL_THE_END = "until this program ends or you take it back"
_UNTIL_CONTINUED = "until the program that continues it (ripieno resume) ends"
_FOR_DAYS = "for seven days or until you take it back"


def ways(tool: str, effect: Effect, *, lasting: bool = False, elsewhere: bool = False) -> Sequence[Way]:
    """The ways in which later calls of a tool can be allowed. A destructive one only with exact arguments.

    ``lasting``: those of submitted runs, which do not end with a program. ``elsewhere``: another program than the one
    that asks the person will run the calls.
    """
    calls = f"Later calls of {visible(tool)} with"
    terms = _TERMS.format(end=_FOR_DAYS if lasting else _UNTIL_CONTINUED if elsewhere else _UNTIL_THE_END)
    either = Way(exact=False, calls=f"{calls} any arguments", terms=terms)
    exactly = Way(exact=True, calls=f"{calls} exactly these arguments", terms=terms)
    return (exactly,) if effect == "destructive" else (either, exactly)


def covers(allowed: Mapping[str, Any], other: Mapping[str, Any], *, exact: bool) -> bool:
    """Whether an *always* to one call allows another one. Both have ``tool``, ``effect`` and ``arguments``."""
    if allowed["tool"] != other["tool"]:
        return False
    either = not exact and "destructive" not in (allowed["effect"], other["effect"])
    return either or digest(allowed["arguments"]) == digest(other["arguments"])


class Allowance(Value, kw_only=True):
    """A permission for later calls of a tool: with any arguments, or with exactly ``arguments``, as canonical JSON.

    One with an ``until`` lasts so long in any program, and counts for tools of this ``workspace`` alone.
    """

    identifier: str
    tool: str
    arguments: str | None
    at: datetime.datetime
    until: datetime.datetime | None = None
    workspace: str = ""

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

    @property
    def over(self) -> bool:
        """Whether its time has passed."""
        return self.until is not None and datetime.datetime.now(datetime.UTC) >= self.until

    def details(self) -> dict[str, Any]:
        """The details that the record of the answer has of one that lasts."""
        if self.until is None:
            return {}
        exact = {} if self.arguments is None else {"arguments": parse(self.arguments)}
        times = {"allowed": self.at.isoformat(), "until": self.until.isoformat()}
        return {"allowance": self.identifier, **times, "workspace": self.workspace, **exact}

    def revocation(self, owner: str, conversation: str) -> Record:
        """The record that a person has taken it back."""
        exact = {} if self.arguments is None else {"arguments": parse(self.arguments)}
        rule = f"{self.tool} with {'exactly these' if exact else 'any'} arguments"
        details = {"rule": rule, "allowance": self.identifier, "allowed": self.at.isoformat(), **exact}
        return Record(stage="revoked", conversation=conversation, turn=0, tool=self.tool, owner=owner, details=details)


class Allowances:
    """The allowances of all owners. Each counts for its owner and its conversation, and for no other.

    They apply to calls that need confirmation only because of their effect; they weaken no rule. A destructive tool is
    allowed only with exact arguments. One that is taken back no longer applies to any call that has not started.
    """

    def __init__(self) -> None:
        #: For how long they count, also in other programs; None if they end with this one.
        self.lifetime: datetime.timedelta | None = None
        #: By owner and conversation, then by identifier; the oldest first.
        self._given: dict[tuple[str, str], dict[str, Allowance]] = {}

    def make(
        self, identity: str, effect: Effect, arguments: Mapping[str, Any], *, exact: bool, workspace: str = ""
    ) -> Allowance:
        """The allowance of a tool, or with ``exact`` of a tool with these arguments. Errors: ``JsonInvalidity``."""
        text = canonical(freeze(arguments)).decode() if exact or effect == "destructive" else None
        at = datetime.datetime.now(datetime.UTC)
        return Allowance(
            identifier=_identify(identity, None if text is None else arguments),
            tool=identity,
            arguments=text,
            at=at,
            until=None if self.lifetime is None else at + self.lifetime,
            workspace=workspace,
        )

    def add(self, scope: Scope, allowance: Allowance) -> None:
        """Adds an allowance, in place of an equal one."""
        self._given.setdefault((scope.owner, scope.conversation), {})[allowance.identifier] = allowance

    def allows(self, scope: Scope, identity: str, effect: Effect, arguments: Mapping[str, Any]) -> bool:
        """Whether a call was allowed: by its tool's full name, or with exactly these arguments."""
        given = self._given.get((scope.owner, scope.conversation))
        if not given:
            return False
        either = None if effect == "destructive" else given.get(_identify(identity, None))
        if either is not None and not either.over:
            return True
        exactly = given.get(_identify(identity, arguments))
        return exactly is not None and not exactly.over

    @property
    def conversations(self) -> Sequence[tuple[str, str]]:
        """The conversations that have some, each after its owner."""
        return [one for one, given in self._given.items() if given]

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
