"""``ScheduledCall``, one call of a turn, and ``Dispatcher``, which starts calls within the limits and locks."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import ExecutionProgress, ResultReady
from ripieno.canisters.faults import Category, Fault
from ripieno.ensembles import Invoker
from ripieno.execution.budget import Budget
from ripieno.execution.call import Call
from ripieno.execution.claims import ALONE, Claims, claims_of
from ripieno.execution.context import Circumstances, Deferred, Prepared
from ripieno.execution.pipeline import Execution
from ripieno.execution.scheduling.locks import HELD, Locks, Ticket

#: Why a call is open: a person has to approve it; it comes after such a call; or the caller runs it.
Why: TypeAlias = Literal["approval", "behind", "caller"]


@dataclasses.dataclass(slots=True, eq=False)
class ScheduledCall:
    """One call of the turn, from the moment that its block is sealed."""

    invocation: InvocationCanister
    invoker: Invoker | None = None
    prepared: Prepared | None = None
    call: Call | None = None
    result: ResultCanister | None = None
    #: Its approval waits for a person: it stays open, without a result.
    deferred: Deferred | None = None
    #: It conflicts with an earlier open call, and therefore stays open.
    behind: bool = False
    claims: Claims = ALONE
    #: Earlier calls that it conflicts with.
    blockers: tuple["ScheduledCall", ...] = ()
    #: Whether it needs no confirmation, or has it.
    confirmed: bool = False
    #: Its locks among conversations, and the timer that ends the wait for them.
    ticket: Ticket | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def here(self) -> bool:
        """Whether its result comes from this process, as for an unknown tool."""
        return self.invoker is None or self.invoker.hosted == "here"

    @property
    def settled(self) -> bool:
        """Whether it has its result, or its provider has run it."""
        return self.result is not None or (self.invoker is not None and self.invoker.hosted == "provider")

    @property
    def open(self) -> bool:
        """Whether it has no result until a person has answered."""
        return self.result is None and (self.behind or self.deferred is not None)

    @property
    def why(self) -> Why | None:
        """Why it is open, or None."""
        if self.settled:
            return None
        if not self.here:
            return "caller"
        if self.deferred is not None:
            return "approval"
        return "behind" if self.behind else None

    @property
    def early(self) -> bool:
        """Whether it may start before the model's answer ends: it changes nothing and needs no confirmation."""
        prepared = self.prepared
        return prepared is not None and prepared.immediate and not prepared.invoker.policy.terminal

    @property
    def accomplished(self) -> bool:
        """Whether it is a terminal call that succeeded, which ends the run."""
        terminal = self.call is not None and self.call.invoker.policy.terminal
        return terminal and self.result is not None and self.result.error is None

    @property
    def tool(self) -> str:
        """The identity of the tool that runs if it is known, or the name that the model used."""
        return self.invocation.name if self.running is None else self.running.identity

    @property
    def running(self) -> Invoker | None:
        """The invoker that runs, which may be another one than the model named."""
        return self.invoker if self.prepared is None else self.prepared.invoker

    def prepare(self, prepared: Prepared) -> None:
        """Sets the prepared call and its claims. A terminal call waits for all others, and they wait for it."""
        self.prepared = prepared
        self.confirmed = self.confirmed or prepared.verdict.action == "run"
        terminal = prepared.invoker.policy.terminal
        self.claims = ALONE if terminal else claims_of(prepared.invoker, prepared.arguments)

    @property
    def blocked(self) -> tuple["ScheduledCall", ...]:
        """The calls that it still waits for."""
        if self.blockers:
            self.blockers = tuple(one for one in self.blockers if one.result is None)
        return self.blockers


class Dispatcher:
    """Starts calls, or gives them the result that says why not. ``wake`` is called after each change."""

    def __init__(self, execution: Execution, scope: Circumstances, budget: Budget, wake: Callable[[], None]) -> None:
        self._execution = execution
        self._around = scope
        self._budget = budget
        self._wake = wake
        #: Whether results are discarded, because the stream failed.
        self.dropped = False

    def is_refused(self, entry: ScheduledCall) -> bool:
        """Whether a limit refuses the call. If so, it has its result."""
        assert entry.running is not None
        return self.fails(entry, self._budget.refuse(entry.invocation, entry.running, self._budget.seconds))

    def fails(self, entry: ScheduledCall, fault: Fault | None) -> bool:
        """Makes a fault, if there is one, the result of the call; returns whether there was one."""
        if fault is not None:
            self.leave(entry)
            self.show(entry, self._execution.reporter.refuse(entry.invocation, fault, self._around, entry.running))
        return fault is not None

    def refuse(self, entry: ScheduledCall, category: Category, message: str) -> None:
        """Gives a call that is not run its result."""
        self.fails(entry, Fault(category=category, message=message, recoverable=False))

    def dispatch(self, entry: ScheduledCall, *, early: bool) -> None:
        """Starts a call, at once or when it has its locks."""
        prepared = entry.prepared
        assert prepared is not None
        ticket = entry.ticket = Locks.here().request(prepared.invoker, entry.claims, self, self._wake)
        if ticket is None or ticket.held:
            self._begin(entry, early=early)
            return
        entry.timer = asyncio.get_running_loop().call_later(self._budget.seconds, self._give_up, entry, ticket)
        if self._around.notify is not None:
            self._around.notify(
                ExecutionProgress(
                    invocation_id=entry.invocation.identifier,
                    tool=prepared.invoker.identity,
                    done=0,
                    message=f"waiting for {self._describe(ticket)}",
                )
            )

    def resume(self, entry: ScheduledCall, *, early: bool) -> None:
        """Starts a call that has its locks now, unless a limit was reached meanwhile."""
        if not self.is_refused(entry):
            self._begin(entry, early=early)

    def _begin(self, entry: ScheduledCall, *, early: bool) -> None:
        prepared, ticket = entry.prepared, entry.ticket
        assert prepared is not None

        def settled(call: Call) -> None:
            entry.call = call
            if call.withdrawn:
                # It never began.
                entry.call = None
                self._budget.calls -= 1
            self.leave(entry)
            self.show(entry, call.result.result())
            self._wake()

        token = None if ticket is None else HELD.set((*HELD.get(), ticket))
        try:
            call = self._execution.launch(
                prepared, self._around, early=early, seconds=self._budget.seconds, settled=settled
            )
        except BaseException:
            self.leave(entry)
            raise
        finally:
            if token is not None:
                HELD.reset(token)
        if isinstance(call, ResultCanister):
            self.leave(entry)
            self.show(entry, call)
            return
        self._budget.calls += 1
        entry.call = call

    def release(self) -> None:
        """Wakes the turn no more, when it is over: both together would stay until the next garbage collection."""
        self._wake = _no_one

    def leave(self, entry: ScheduledCall) -> None:
        """Releases its locks, or its place in the queue for them."""
        ticket, entry.ticket = entry.ticket, None
        if entry.timer is not None:
            entry.timer.cancel()
        if ticket is not None:
            Locks.here().release(ticket)

    def show(self, entry: ScheduledCall, result: ResultCanister) -> None:
        """Sets the one result of a call and reports it."""
        entry.result = result
        call = entry.call
        if call is not None and not result.report.cached:
            self._budget.note(entry.invocation, result)
        if self._around.notify is not None:
            self._around.notify(
                ResultReady(
                    invocation=entry.invocation,
                    result=result,
                    tool=entry.tool,
                    early=call is not None and call.early,
                    discarded=self.dropped,
                )
            )

    def _describe(self, ticket: Ticket) -> str:
        before = ticket.before
        if before is None:
            return "a worker that uses the same workspace" if ticket.elsewhere else "its turn"
        return before.tool if before.owner is self else f"{before.tool} of another conversation"

    def _give_up(self, entry: ScheduledCall, ticket: Ticket) -> None:
        if entry.ticket is ticket and not ticket.held:
            self.fails(entry, self._budget.expire(f"{self._describe(ticket)} did not end in time"))
            self._wake()


def _no_one() -> None:
    """Wakes no one."""
