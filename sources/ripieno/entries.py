"""One call of a turn, from the moment it is sealed: what it is, what it touches, and what it waits for."""

import asyncio
import dataclasses
from typing import Literal, TypeAlias

from ripieno.calls import Call
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.ensembles import Invoker
from ripieno.execution.circumstances import Deferred, Prepared
from ripieno.locks import Ticket
from ripieno.resources import ALONE, Claims, claims_of

#: Why a call is open: somebody has to answer first; it comes after such a call; or the caller runs it.
Why: TypeAlias = Literal["approval", "behind", "caller"]


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """One call of the turn, from the moment it is sealed."""

    invocation: InvocationCanister
    invoker: Invoker | None = None
    prepared: Prepared | None = None
    call: Call | None = None
    result: ResultCanister | None = None
    #: Nobody could answer whether it may run: it stays open, without a result.
    deferred: Deferred | None = None
    #: It conflicts with an earlier call that is open, and stays open behind it.
    held: bool = False
    claims: Claims = ALONE
    #: Earlier calls that it conflicts with.
    behind: tuple["Entry", ...] = ()
    #: Whether nobody has to be asked any more.
    settled_about: bool = False
    #: What it holds, or waits for, of what others use; and when it is waited for no longer.
    ticket: Ticket | None = None
    patience: asyncio.TimerHandle | None = None

    @property
    def here(self) -> bool:
        """Whether it is ours to give the result; an unknown tool is."""
        return self.invoker is None or self.invoker.hosted == "here"

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be done: it has its result, or its provider has run it."""
        return self.result is not None or (self.invoker is not None and self.invoker.hosted == "provider")

    @property
    def open(self) -> bool:
        """Whether it stays without a result until somebody has answered."""
        return self.result is None and (self.held or self.deferred is not None)

    @property
    def why(self) -> Why | None:
        """Why it is open, or None."""
        if self.settled:
            return None
        if not self.here:
            return "caller"
        if self.deferred is not None:
            return "approval"
        return "behind" if self.held else None

    @property
    def terminal(self) -> bool:
        """Whether the run may end with it."""
        return self.prepared is not None and self.prepared.invoker.policy.terminal

    @property
    def early(self) -> bool:
        """Whether it need not wait for the answer's end: it changes nothing, and nobody is asked about it."""
        return self.prepared is not None and self.prepared.immediate and not self.terminal

    @property
    def accomplished(self) -> bool:
        """Whether a terminal invoker has done what it is for, which ends the run."""
        terminal = self.call is not None and self.call.invoker.policy.terminal
        return terminal and self.result is not None and self.result.error is None

    @property
    def tool(self) -> str:
        """The identity of the tool that runs, as far as that is known, or the name that the model used."""
        invoker = self.invoker if self.prepared is None else self.prepared.invoker
        return self.invocation.name if invoker is None else invoker.identity

    def prepare(self, prepared: Prepared) -> None:
        """Takes what is known of it now. What may end the run waits for all, and all wait for it."""
        self.prepared = prepared
        self.settled_about = self.settled_about or prepared.verdict.action == "run"
        self.claims = ALONE if self.terminal else claims_of(prepared.invoker, prepared.arguments)

    @property
    def blocked(self) -> tuple["Entry", ...]:
        """Which calls it waits for still."""
        if self.behind:
            self.behind = tuple(one for one in self.behind if one.result is None)
        return self.behind
