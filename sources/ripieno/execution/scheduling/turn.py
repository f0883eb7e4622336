"""The calls of one turn: which start early, which wait for others, and the order of their results.

A call starts as soon as it conflicts with no earlier unfinished call of the turn. One that changes something, or needs
confirmation, also waits for the end of the answer; people are asked in the model's order, one question at a time. A
call whose tool declares no resources may touch anything, and runs alone unless it only reads.
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

_UNANSWERED = "The call needs approval, no one can approve it now, and it cannot wait here."


class Turn:
    """Takes calls as they are sealed. Each call that is hosted here and not ``open`` gets one result."""

    def __init__(
        self,
        *,
        execution: Execution,
        offer: Offer,
        scope: Circumstances,
        budget: Budget,
        allowed: tuple[str, ...] | None = None,
        forced: str | None = None,
        single: bool = False,
        patient: bool = True,
    ) -> None:
        self._execution = execution
        self._offer = offer
        self._around = scope
        self._budget = budget
        self._allowed = allowed
        #: The only tool that the model may call, which may itself run another one, as ``call_tool`` does.
        self._forced = forced
        #: Whether the turn may have only one call.
        self._single = single
        #: Whether a call may stay open until a person answers; otherwise it is denied.
        self._patient = patient
        #: Whether the answer has ended, and whether no call may begin any more.
        self._over = False
        self._stopped = False
        #: The name of the call that ended the run, and how many of the first calls are begun or settled.
        self._ended: str | None = None
        self._decided = 0
        self._asking: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._context: contextvars.Context | None = None
        self._woken = False
        self._failure: BaseException | None = None
        self._dispatcher = Dispatcher(execution, scope, budget, self._wake)
        self.entries: list[ScheduledCall] = []

    @property
    def open(self) -> tuple[tuple[InvocationCanister, Why], ...]:
        """The invocations without a result after the turn is finished, each with the reason."""
        return tuple((entry.invocation, entry.why) for entry in self.entries if entry.why is not None)

    def seal(self, invocation: InvocationCanister) -> None:
        """Takes a call and starts it if it may start early."""
        if self._context is None:
            # Calls that start later run in the context of the code that sealed them.
            self._context = contextvars.copy_context()
        entry = ScheduledCall(invocation=invocation, invoker=self._offer.named(invocation.name))
        self.entries.append(entry)
        if self._forced is not None and invocation.name != self._forced:
            self._refuse(entry, self._forced)
        elif self._allowed is not None and invocation.name not in self._allowed:
            self._refuse(entry, ", ".join(self._allowed) or "none")
        elif self._single and len(self.entries) > 1:
            self._dispatcher.refuse(
                entry, "denied", "Only one call per turn is allowed here, and another one came first."
            )
        else:
            self._advance()

    def _refuse(self, entry: ScheduledCall, allowed: str) -> None:
        message = f"{entry.invocation.name!r} may not be called in this turn; allowed: {allowed}."
        self._dispatcher.refuse(entry, "denied", message)

    async def finish(self) -> None:
        """Runs the remaining calls. Afterwards every entry that is hosted here has its result, or is ``open``.

        Cancelling this cancels the calls and gives each its result; then the cancellation is raised.
        """
        try:
            self._over = True
            self._advance()
            while self._busy and self._failure is None:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            if self._failure is not None:
                raise self._failure
            self._end()
        except BaseException:
            await self.cancel()
            raise

    # Starting what may start now.

    @property
    def _busy(self) -> bool:
        return self._woken or any(not entry.settled and entry.here and not entry.open for entry in self.entries)

    def _wake(self) -> None:
        """Schedules another check of what may start, for the next step of the event loop."""
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
        """Starts the calls that may start now, in the model's order, and records them in one commit."""
        with self._execution.reporter.together():
            self._start()

    def _start(self) -> None:
        #: Whether an earlier call still needs confirmation, and how many may still be dispatched.
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
                # All later calls wait for it. Those after an open one stay open, too.
                for later in self.entries[place + 1 :] if entry.open else ():
                    later.behind = later.here and not later.settled and later.call is None
                return
            if not entry.open:
                undecided += 1
                unasked = unasked or not entry.confirmed

    def _try(self, entry: ScheduledCall, *, unasked: bool, undecided: int) -> None:
        if self._ended is not None:
            message = f"The call was not run: {self._ended} came before it and ended the run."
            self._dispatcher.refuse(entry, "cancelled", message)
        elif (entry.prepared is not None or self._prepare(entry)) and entry.call is None and not entry.open:
            self._consider(entry, unasked=unasked, undecided=undecided)

    def _consider(self, entry: ScheduledCall, *, unasked: bool, undecided: int) -> None:
        """Confirms or starts a call if that may be done now. ``undecided`` earlier calls may still use the budget."""
        if entry.ticket is not None:
            if entry.ticket.held:
                self._dispatcher.resume(entry, early=not self._over)
            return
        blocked = entry.blocked
        if any(one.open for one in blocked):
            entry.behind = True
            return
        if blocked or not (self._over or entry.early):
            return
        if not entry.confirmed and (unasked or self._asking is not None):
            return
        budget = self._budget
        if budget.calls < budget.limits.calls <= budget.calls + undecided:
            return  # Earlier calls may use the rest of the budget.
        if self._dispatcher.is_refused(entry):
            return
        if entry.confirmed:
            self._dispatcher.dispatch(entry, early=not self._over)
        else:
            self._asking = asyncio.get_running_loop().create_task(self._ask(entry))

    def _prepare(self, entry: ScheduledCall) -> bool:
        if self._dispatcher.fails(entry, self._budget.break_loop(entry.invocation, entry.invoker)):
            return False
        prepared = self._execution.prepare(entry.invocation, self._offer, self._around)
        if isinstance(prepared, ResultCanister):
            self._budget.note(entry.invocation, prepared)
            self._dispatcher.show(entry, prepared)
            return False
        name = prepared.invoker.exposed
        if self._allowed is not None and name not in self._allowed:
            self._dispatcher.refuse(entry, "denied", f"{name!r} may not be called in this turn.")
            return False
        entry.prepare(prepared)
        self._place(entry)
        return True

    def _place(self, entry: ScheduledCall) -> None:
        """Determines which calls it waits for: conflicting ones that are earlier or under way."""
        blockers: list[ScheduledCall] = []
        earlier = True
        for other in self.entries:
            if other is entry:
                earlier = False
            elif other.prepared is not None and not other.settled and other.claims.conflicts(entry.claims):
                if earlier or other.call is not None or other.ticket is not None:
                    blockers.append(other)
                elif entry not in other.blockers:
                    other.blockers = (*other.blockers, entry)
        entry.blockers = tuple(blockers)

    async def _ask(self, entry: ScheduledCall) -> None:
        """Confirms a call. Afterwards, whatever the answer, the next confirmation may start."""
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
                fault = self._budget.expire("the confirmation was not answered in time")
                confirmed = self._execution.reporter.refuse(entry.invocation, fault, self._around, prepared.invoker)
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
            entry.confirmed = True
            if confirmed is not entry.prepared:
                entry.prepare(confirmed)
                self._place(entry)

    # Ending a turn early.

    async def _stop(self) -> None:
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
            self._end()
            if asking is not None:
                await asyncio.wait((asking,), timeout=owner.GRACE)

    def _cancel(self) -> None:
        self._stopped = True
        for entry in self.entries:
            if entry.call is not None:
                entry.call.cancel()

    async def cancel(self) -> None:
        """Cancels the running calls and waits for their results, at most the grace period; the others never begin."""
        self._cancel()
        for entry in self.entries:
            if entry.here and entry.call is None and not entry.settled:
                self._dispatcher.refuse(entry, "cancelled", "The call was not run: the run was cancelled.")
        await self._stop()

    async def cut(self, finish: Finish) -> None:
        """Ends a turn whose answer allows no more calls: running calls may end, the others never begin.

        The same holds for calls that the caller runs.
        """
        self._stopped = True
        for entry in self.entries:
            if entry.call is None and not entry.settled:
                self._dispatcher.refuse(entry, "cancelled", f"The call was not run: the answer ended with {finish!r}.")
        await self._stop()

    async def drop(self) -> None:
        """Ends a turn whose stream failed: early results are recorded as discarded, and the model never sees them."""
        self._dispatcher.dropped = True
        self._cancel()
        try:
            await self._stop()
        finally:
            for entry in self.entries:
                if entry.call is not None:
                    self._execution.discard(entry.call, self._around)

    def _end(self) -> None:
        """Writes the records that wait for others, and lets go of the dispatcher's hold on this turn."""
        self._dispatcher.release()
        self._execution.reporter.flush(self._around.owner, self._around.conversation)


async def schedule(
    invocations: Sequence[InvocationCanister], offer: Offer, execution: Execution
) -> tuple[ResultCanister, ...]:
    """One result for each of these calls, in their order, as for one turn of a model.

    A call that would have to wait for a person is denied. Cancelling this cancels the calls; the cancellation is raised
    when each has its result. Errors: ``InputError``, before any call runs, when one of them is hosted elsewhere.
    """
    for invocation in invocations:
        invoker = offer.named(invocation.name)
        if invoker is not None and invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
    turn = Turn(execution=execution, offer=offer, scope=Circumstances(), budget=Budget(execution.limits), patient=False)
    for invocation in invocations:
        turn.seal(invocation)
    await turn.finish()
    return tuple(entry.result for entry in turn.entries if entry.result is not None)
