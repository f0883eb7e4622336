"""The calls of one turn: which start early, which wait for which, and the order of their results.

A call starts as soon as no earlier call of the turn that has not ended conflicts with it, by what the two touch. One
that changes something, or that somebody is asked about, waits for the terminal event as well; people are asked in the
model's order, one question at a time. What its tool does not declare may touch anything: it runs alone.
"""

import asyncio
import contextvars
from collections.abc import Sequence

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Finish
from ripieno.ensembles import owner
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.execution.budget import Budget
from ripieno.execution.call import settle
from ripieno.execution.context import Circumstances, Deferred, Prepared
from ripieno.execution.pipeline import Execution
from ripieno.execution.scheduling.dispatcher import Dispatcher, ScheduledCall, Why

_UNANSWERED = "Nobody can say now whether it may run, and this call cannot wait for that."


class Turn:
    """Takes calls as they are sealed, and gives one result for each that is hosted here and not ``open``."""

    def __init__(
        self,
        *,
        execution: Execution,
        offer: Offer,
        around: Circumstances,
        budget: Budget,
        allowed: tuple[str, ...] | None = None,
        single: bool = False,
        patient: bool = True,
    ) -> None:
        self._execution = execution
        self._offer = offer
        self._around = around
        self._budget = budget
        self._allowed = allowed
        #: Whether one call is all that the turn may have.
        self._single = single
        #: Whether a call may stay open until somebody answers; otherwise it is denied.
        self._patient = patient
        #: Whether the terminal event came, and whether nothing begins any more.
        self._over = False
        self._stopped = False
        #: The terminal call that ended the run, and how many calls have begun or need nothing, from the first on.
        self._ended: str | None = None
        self._decided = 0
        self._asking: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._context: contextvars.Context | None = None
        self._woken = False
        self._failure: BaseException | None = None
        self._dispatcher = Dispatcher(execution, around, budget, self._wake, self)
        self.entries: list[ScheduledCall] = []

    @property
    def open(self) -> tuple[tuple[InvocationCanister, Why], ...]:
        """The invocations that have no result yet, each with the reason, once the turn is finished."""
        return tuple((entry.invocation, entry.why) for entry in self.entries if entry.why is not None)

    def seal(self, invocation: InvocationCanister) -> None:
        """Takes a call; starts it if it may start early."""
        if self._context is None:
            # What starts later, whoever brings that about, starts on behalf of the one who sealed it.
            self._context = contextvars.copy_context()
        entry = ScheduledCall(invocation=invocation, invoker=self._offer.named(invocation.name))
        self.entries.append(entry)
        if self._allowed is not None and invocation.name not in self._allowed:
            allowed = ", ".join(self._allowed) or "none"
            self._dispatcher.refuse(
                entry, "denied", f"{invocation.name!r} may not be called in this turn; allowed: {allowed}."
            )
        elif self._single and len(self.entries) > 1:
            self._dispatcher.refuse(
                entry, "denied", "One call at a time is allowed here, and another stands before it."
            )
        else:
            self._advance()

    async def finish(self) -> None:
        """Runs whatever has not run. Afterwards every entry that is hosted here has its result, or is ``open``.

        Cancelling this cancels the calls, gives each its result, and is raised then.
        """
        try:
            self._over = True
            self._advance()
            while self._busy and self._failure is None:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            if self._failure is not None:
                raise self._failure
        except BaseException:
            await self.cancel()
            raise

    # What may start now.

    @property
    def _busy(self) -> bool:
        return self._woken or any(not entry.settled and entry.here and not entry.open for entry in self.entries)

    def _wake(self) -> None:
        """Something has changed: what may start now is started, when whoever brought that about has done its part."""
        if not self._woken and not self._stopped:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._awake, context=self._context)

    def _awake(self) -> None:
        self._woken = False
        try:
            self._advance()
        except BaseException as error:
            self._failure = error
        if self._waiter is not None and not self._waiter.done() and (self._failure is not None or not self._busy):
            self._waiter.set_result(None)

    def _advance(self) -> None:
        """Starts whatever may start now, in the model's order: all of it is written down at once."""
        with self._execution.reporter.together():
            self._start()

    def _start(self) -> None:
        #: Whether an earlier call has still to be asked about, and how many may still be dispatched.
        unasked, undecided = False, 0
        for place in range(self._decided, len(self.entries)):
            entry = self.entries[place]
            if self._stopped:
                return
            if not entry.settled and (entry.here or self._ended is not None):
                self._try(entry, unasked=unasked, undecided=undecided)
            if entry.accomplished:
                self._ended = entry.invocation.name
            if entry.settled or not entry.here or (entry.call is not None and not entry.claims.alone):
                if place == self._decided:
                    self._decided += 1
                continue
            if entry.claims.alone or not (self._over or entry.early or entry.claims.declared):
                # All that come later wait for it. Those behind an open one stay open, too.
                if entry.open:
                    self._hold(entry)
                return
            if not entry.open:
                undecided += 1
                unasked = unasked or not entry.settled_about

    def _try(self, entry: ScheduledCall, *, unasked: bool, undecided: int) -> None:
        """Makes the best of one call: it is refused, begins, or goes on waiting."""
        if self._ended is not None:
            message = f"The call was not run: {self._ended} came before it and ended the run."
            self._dispatcher.refuse(entry, "cancelled", message)
        elif (entry.prepared is not None or self._prepare(entry)) and entry.call is None and not entry.open:
            self._consider(entry, unasked=unasked, undecided=undecided)

    def _hold(self, entry: ScheduledCall) -> None:
        for later in self.entries[self.entries.index(entry) + 1 :]:
            later.held = later.here and not later.settled and later.call is None

    def _consider(self, entry: ScheduledCall, *, unasked: bool, undecided: int) -> None:
        """Asks about a call, or starts it, if that may be done now. ``undecided`` earlier ones may take a place yet."""
        if entry.ticket is not None:
            if entry.ticket.held:
                self._dispatcher.launch(entry, early=not self._over)
            return
        blocked = entry.blocked
        if any(one.open for one in blocked):
            entry.held = True
            return
        if blocked or not (self._over or entry.early):
            return
        if not entry.settled_about and (unasked or self._asking is not None):
            return
        budget = self._budget
        if budget.calls < budget.limits.calls <= budget.calls + undecided:
            return  # Earlier calls may need what is left.
        if self._dispatcher.is_refused(entry):
            return
        if entry.settled_about:
            self._dispatcher.dispatch(entry, early=not self._over)
        else:
            self._asking = asyncio.get_running_loop().create_task(self._ask(entry))

    def _prepare(self, entry: ScheduledCall) -> bool:
        """Makes the entry ready to run, or gives it the result that says why it cannot."""
        if self._dispatcher.fails(entry, self._budget.break_loop(entry.invocation, entry.invoker)):
            return False
        prepared = self._execution.prepare(entry.invocation, self._offer, self._around)
        if isinstance(prepared, ResultCanister):
            self._budget.note(entry.invocation, prepared)
            self._dispatcher.show(entry, prepared)
            return False
        name = prepared.invoker.exposed
        if self._allowed is not None and name not in self._allowed:
            self._dispatcher.refuse(entry, "denied", f"{name!r} may not be called in this turn, nor called again.")
            return False
        entry.prepare(prepared)
        self._place(entry)
        return True

    def _place(self, entry: ScheduledCall) -> None:
        """Finds out which calls it waits for: earlier ones, and whatever runs."""
        behind: list[ScheduledCall] = []
        earlier = True
        for other in self.entries:
            if other is entry:
                earlier = False
            elif other.prepared is not None and not other.settled and other.claims.conflicts(entry.claims):
                if earlier or other.call is not None or other.ticket is not None:
                    behind.append(other)
                elif entry not in other.behind:
                    other.behind = (*other.behind, entry)
        entry.behind = tuple(behind)

    # How one call starts.

    async def _ask(self, entry: ScheduledCall) -> None:
        """Asks about a call. Whatever comes of it, the next one may be asked about."""
        prepared, seconds = entry.prepared, self._budget.seconds
        assert prepared is not None
        try:
            clock = asyncio.timeout(seconds)
            try:
                async with clock:
                    confirmed = await self._execution.confirm(prepared, self._around)
            except TimeoutError:
                if not clock.expired():
                    raise
                fault = self._budget.expire("nobody answered in time")
                confirmed = self._execution.refuse(entry.invocation, fault, self._around, prepared.invoker)
            self._answer(entry, confirmed)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
        finally:
            self._asking = None
            self._wake()

    def _answer(self, entry: ScheduledCall, confirmed: Prepared | ResultCanister | Deferred) -> None:
        if entry.result is not None:
            return
        if isinstance(confirmed, Deferred) and not self._patient:
            self._dispatcher.refuse(entry, "denied", _UNANSWERED)
        elif isinstance(confirmed, Deferred):
            entry.deferred = confirmed
        elif isinstance(confirmed, ResultCanister):
            self._budget.note(entry.invocation, confirmed)
            self._dispatcher.show(entry, confirmed)
        else:
            entry.settled_about = True
            if confirmed is not entry.prepared:
                entry.prepare(confirmed)
                self._place(entry)

    # How a turn ends before its time.

    async def _stop(self) -> None:
        """Waits for every call under way. A cancellation is raised when all of them have their results."""
        self._stopped = True
        for entry in self.entries:
            if entry.call is None:
                self._dispatcher.leave(entry)
        asking = self._asking
        if asking is not None:
            asking.cancel()
        try:
            await settle([entry.call for entry in self.entries if entry.call is not None and entry.result is None])
        finally:
            if asking is not None:
                await asyncio.wait((asking,), timeout=owner.GRACE)

    def _cancel(self) -> None:
        self._stopped = True
        for entry in self.entries:
            if entry.call is not None:
                entry.call.cancel()

    async def cancel(self) -> None:
        """Cancels what runs and waits for the results, at most for the grace; the rest never begins."""
        self._cancel()
        for entry in self.entries:
            if entry.here and entry.call is None and not entry.settled:
                self._dispatcher.refuse(entry, "cancelled", "The call was not run: the run was cancelled.")
        await self._stop()

    async def cut(self, finish: Finish) -> None:
        """The answer ended in a way that allows no more calls: what runs may end, what has not begun never does.

        That goes for calls of the caller, too.
        """
        self._stopped = True
        for entry in self.entries:
            if entry.call is None and not entry.settled:
                self._dispatcher.refuse(entry, "cancelled", f"The call was not run: the answer ended with {finish!r}.")
        await self._stop()

    async def drop(self) -> None:
        """The stream failed: early results are recorded as discarded, and the model never sees them."""
        self._dispatcher.dropped = True
        self._cancel()
        try:
            await self._stop()
        finally:
            for entry in self.entries:
                if entry.call is not None:
                    self._execution.discard(entry.call, self._around)


async def schedule(
    invocations: Sequence[InvocationCanister], offer: Offer, execution: Execution
) -> tuple[ResultCanister, ...]:
    """One result for each of these calls, in their order: as if they were all that a model said.

    A call about which nobody can answer now is denied. Errors: ``InputError`` when one of them is hosted elsewhere;
    nothing has run then. Cancelling this cancels the calls, and is raised when each has its result.
    """
    for invocation in invocations:
        invoker = offer.named(invocation.name)
        if invoker is not None and invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
    turn = Turn(
        execution=execution, offer=offer, around=Circumstances(), budget=Budget(execution.limits), patient=False
    )
    for invocation in invocations:
        turn.seal(invocation)
    await turn.finish()
    return tuple(entry.result for entry in turn.entries if entry.result is not None)
