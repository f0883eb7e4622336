"""The calls of one turn: which start early, which wait, which run alone, and the order of their results.

A call of effect ``none`` or ``read`` that nobody is asked about starts as soon as it is sealed, while every
earlier call of the message is such a one. Any other call is a barrier: it waits for the terminal event and for
everything before it, and runs alone.
"""

import asyncio
import dataclasses
from collections.abc import Sequence

from ripieno.calls import Call, settle
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.controls import Finish
from ripieno.ensembles import Invoker
from ripieno.events import ResultReady
from ripieno.exceptions import InputError
from ripieno.execution import Circumstances, Execution, Prepared
from ripieno.faults import Category, Fault
from ripieno.limiting import Budget
from ripieno.offers import Offer


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """One call of the turn, from the moment it is sealed."""

    invocation: InvocationCanister
    invoker: Invoker | None = None
    prepared: Prepared | None = None
    call: Call | None = None
    result: ResultCanister | None = None

    @property
    def here(self) -> bool:
        """Whether it is ours to give the result; an unknown tool is."""
        return self.invoker is None or self.invoker.hosted == "here"

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be done: it has its result, or its provider has run it."""
        return self.result is not None or (self.invoker is not None and self.invoker.hosted == "provider")

    @property
    def accomplished(self) -> bool:
        """Whether a terminal invoker has done what it is for, which ends the run."""
        terminal = self.call is not None and self.call.invoker.policy.terminal
        return terminal and self.result is not None and self.result.error is None

    @property
    def tool(self) -> str:
        """The identity of the tool, or the name that the model used."""
        return self.invocation.name if self.invoker is None else self.invoker.identity


class Turn:
    """Takes calls as they are sealed, and gives one result for each that is hosted here."""

    def __init__(
        self,
        *,
        execution: Execution,
        offer: Offer,
        around: Circumstances,
        budget: Budget,
        allowed: tuple[str, ...] | None = None,
        single: bool = False,
    ) -> None:
        self._execution = execution
        self._offer = offer
        self._around = around
        self._budget = budget
        self._allowed = allowed
        #: Whether one call is all that the turn may have.
        self._single = single
        self._barred = False
        self._dropped = False
        self.entries: list[Entry] = []

    def seal(self, invocation: InvocationCanister) -> None:
        """Takes a call; starts it if it may start early."""
        entry = Entry(invocation=invocation, invoker=self._offer.named(invocation.name))
        self.entries.append(entry)
        if self._allowed is not None and invocation.name not in self._allowed:
            allowed = ", ".join(self._allowed) or "none"
            self._refuse(entry, "denied", f"{invocation.name!r} may not be called in this turn; allowed: {allowed}.")
            return
        if self._single and len(self.entries) > 1:
            self._refuse(entry, "denied", "One call at a time is allowed here, and another stands before it.")
            return
        if self._barred or not entry.here:
            return
        prepared = self._prepare(entry)
        if prepared is None:
            return
        if _starts_early(prepared):
            self._launch(entry, prepared, early=True)
        else:
            self._barred = True

    async def finish(self) -> None:
        """Runs whatever has not run. Afterwards every entry that is hosted here has its result.

        Cancelling this cancels the calls, gives each its result, and is raised then.
        """
        try:
            ended: str | None = None
            for entry in self.entries:
                if entry.settled:
                    continue
                if ended is not None and entry.call is None:
                    self._refuse(entry, "cancelled", f"The call was not run: {ended} came before it and ended the run.")
                elif entry.here:
                    await self._run(entry)
                    if entry.accomplished:
                        ended = entry.invocation.name
            await self._gather()
        except BaseException:
            await self.cancel()
            raise

    async def _run(self, entry: Entry) -> None:
        prepared = entry.prepared or self._prepare(entry)
        if prepared is None or entry.call is not None:
            return
        if _starts_early(prepared):
            self._launch(entry, prepared)
            return
        await self._gather()
        seconds = self._budget.seconds
        if self._is_refused(entry, prepared, seconds):
            return
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                confirmed = await self._execution.confirm(prepared, self._around)
        except TimeoutError:
            if not clock.expired():
                raise
            fault = self._budget.expire("nobody answered in time")
            confirmed = self._execution.refuse(entry.invocation, fault, self._around, prepared.invoker)
        if isinstance(confirmed, ResultCanister):
            self._show(entry, confirmed)
            return
        self._launch(entry, confirmed)
        await self._gather()

    def _prepare(self, entry: Entry) -> Prepared | None:
        """Makes the entry ready to run, or gives it the result that says why it cannot."""
        prepared = self._execution.prepare(entry.invocation, self._offer, self._around)
        if isinstance(prepared, ResultCanister):
            self._show(entry, prepared)
            return None
        name = prepared.invoker.exposed
        if self._allowed is not None and name not in self._allowed:
            self._refuse(entry, "denied", f"{name!r} may not be called in this turn, nor called again.")
            return None
        entry.prepared = prepared
        return prepared

    def _is_refused(self, entry: Entry, prepared: Prepared, seconds: float) -> bool:
        """Whether a limit refuses the call, which has its result then. ``seconds`` are left of the run."""
        fault = self._budget.refuse(entry.invocation, prepared.invoker, seconds)
        if fault is not None:
            self._show(entry, self._execution.refuse(entry.invocation, fault, self._around, prepared.invoker))
        return fault is not None

    def _launch(self, entry: Entry, prepared: Prepared, *, early: bool = False) -> None:
        seconds = self._budget.seconds
        if self._is_refused(entry, prepared, seconds):
            return
        call = self._execution.launch(
            prepared,
            self._around,
            early=early,
            seconds=seconds,
            settled=lambda call: self._show(entry, call.result.result()),
        )
        if isinstance(call, ResultCanister):
            self._show(entry, call)
            return
        self._budget.calls += 1
        entry.call = call

    def _refuse(self, entry: Entry, category: Category, message: str) -> None:
        fault = Fault(category=category, message=message, recoverable=False)
        self._show(entry, self._execution.refuse(entry.invocation, fault, self._around, entry.invoker))

    def _show(self, entry: Entry, result: ResultCanister) -> None:
        entry.result = result
        call = entry.call
        if call is not None:
            self._budget.note(entry.invocation, result)
        if self._around.notify is not None:
            self._around.notify(
                ResultReady(
                    invocation=entry.invocation,
                    result=result,
                    tool=entry.tool,
                    early=call is not None and call.early,
                    discarded=self._dropped,
                )
            )

    async def _gather(self) -> None:
        """Waits for every call under way. A cancellation is raised when all of them have their results."""
        await settle([entry.call for entry in self.entries if entry.call is not None and entry.result is None])

    def _cancel(self) -> None:
        for entry in self.entries:
            if entry.call is not None:
                entry.call.cancel()

    async def cancel(self) -> None:
        """Cancels what runs and waits for the results, at most for the grace; the rest never begins."""
        self._cancel()
        for entry in self.entries:
            if entry.here and entry.call is None and not entry.settled:
                self._refuse(entry, "cancelled", "The call was not run: the run was cancelled.")
        await self._gather()

    async def cut(self, finish: Finish) -> None:
        """The answer ended in a way that allows no more calls: what runs may end, what has not begun never does.

        That goes for calls of the caller, too.
        """
        for entry in self.entries:
            if entry.call is None and not entry.settled:
                self._refuse(entry, "cancelled", f"The call was not run: the answer ended with {finish!r}.")
        await self._gather()

    async def drop(self) -> None:
        """The stream failed: early results are recorded as discarded, and the model never sees them."""
        self._dropped = True
        self._cancel()
        try:
            await self._gather()
        finally:
            for entry in self.entries:
                if entry.call is not None:
                    self._execution.discard(entry.call, self._around)


async def schedule(
    invocations: Sequence[InvocationCanister], offer: Offer, execution: Execution
) -> tuple[ResultCanister, ...]:
    """One result for each of these calls, in their order: as if they were all that a model said.

    Errors: ``InputError`` when one of them is hosted elsewhere; nothing has run then. Cancelling this cancels the
    calls, and is raised when each has its result.
    """
    for invocation in invocations:
        invoker = offer.named(invocation.name)
        if invoker is not None and invoker.hosted != "here":
            raise InputError(f"{invoker.identity} is run by the {invoker.hosted}, not here.")
    turn = Turn(execution=execution, offer=offer, around=Circumstances(), budget=Budget(execution.limits))
    for invocation in invocations:
        turn.seal(invocation)
    await turn.finish()
    return tuple(entry.result for entry in turn.entries if entry.result is not None)


def _starts_early(prepared: Prepared) -> bool:
    """Whether a call need not wait for anything. One that may end the run waits, whatever its effect."""
    return prepared.immediate and not prepared.invoker.policy.terminal
