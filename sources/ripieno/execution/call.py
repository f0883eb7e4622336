"""One call under way: its own task, a deadline, a grace period, and exactly one result.

Whatever the tool does (raise, exit, hang, ignore its cancellation, return nonsense), ``result`` is set once. Where
repeating is safe, a transient failure is followed by another attempt in the same task.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Content, InvocationCanister, ResultCanister
from ripieno.canisters.contents import legible
from ripieno.canisters.events import Event
from ripieno.canisters.faults import SUGGESTIONS, Category, Fault, Report
from ripieno.ensembles import Context, Invoker, Outcome, owner
from ripieno.ensembles.owner import reason
from ripieno.exceptions import ToolFault
from ripieno.execution.reconnection import restored
from ripieno.execution.results import Keep, bound, bound_fault, changes_of, contents_of, cut_streams, structure_of
from ripieno.execution.retries import Attempts
from ripieno.execution.tool_errors import VERIFY, fault_of
from ripieno.jsonvalues import thaw


class Call:
    """A call from its start to its result. ``early``: it began while the model still streamed.

    ``timeout`` seconds are for each attempt, ``latest`` seconds for all attempts and the pauses between them. ``bug``
    is an exception of the tool that is not for the model. The tool begins when ``recorded`` is done. ``settled`` gets
    the call when it has its ``outcome``, and calls ``deliver``. ``progress``, ``settled`` and ``alert`` must not raise.
    """

    bug: BaseException | None = None
    withdrawn = False
    #: The value of ``result`` before it is delivered.
    outcome: ResultCanister | None = None
    #: Those of ``wait``.
    _waiters: Sequence[asyncio.Future[None]] = ()

    def __init__(
        self,
        *,
        invocation: InvocationCanister,
        invoker: Invoker,
        context: Context,
        arguments: dict[str, Any],
        timeout: float,
        latest: float | None,
        limit: int,
        early: bool,
        keep: Keep | None = None,
        attempts: Attempts,
        progress: Callable[[float, float | None, str], None],
        settled: Callable[["Call"], None],
        alert: Callable[[str], None],
        recorded: asyncio.Future[None] | None = None,
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        self._context = context
        self._arguments = arguments
        # Faults have it as JSON: 1 and not 1.0, whether a policy or an argument has set it.
        self._timeout = context.timeout = int(timeout) if float(timeout).is_integer() else timeout
        self._limit = limit
        self._keep = keep
        self._attempts = attempts
        self._progress = progress
        self._settled = settled
        self._alert = alert
        self._recorded = recorded
        self._ending: Category | None = None
        self._entered = False
        self._thread = threading.get_ident()
        loop = asyncio.get_running_loop()
        self.result: asyncio.Future[ResultCanister] = loop.create_future()
        self._began = now = loop.time()
        #: The end of the run's time; waiting for a person does not extend it.
        self._latest = None if latest is None else now + latest
        self._pauses = 0
        self._left = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer(now + timeout)
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        """Runs the tool. Catches everything: ``SystemExit`` in a task would end the event loop and every sibling."""
        if self._recorded is not None:
            with self.paused():
                await asyncio.shield(self._recorded)
        self._entered = True
        pause: float | None = 0.0
        while pause is not None:
            try:
                if pause or self._attempts.count:
                    await self._rest(pause)
                self._attempts.count += 1
                if self._attempts.count > 1:
                    self.invoker = self._context.invoker = await restored(self.invoker)
                    self._context.connection = self.invoker.ensemble.connection
                # A copy: a tool may change its arguments, and the next attempt needs the original ones.
                value = await self.invoker.perform(self._context, thaw(self._arguments))
            except GeneratorExit:  # The event loop was closed; nothing waits for the result.
                raise
            except BaseException as error:
                if self._ending is None and isinstance(error, asyncio.CancelledError) and self._task.cancelling():
                    self._ending = "cancelled"  # By other code, as an event loop does at its end.
                # After a cancellation, any exception but a fault is the tool's response to it.
                cancelled = self._ending is not None and not isinstance(error, ToolFault)
                pause = self._stop() if cancelled else self._read(error)
            else:
                pause = None
                try:
                    self._succeed(value)
                except Exception as nonsense:
                    self._fail(nonsense)

    async def _rest(self, pause: float) -> None:
        self._set_timer(None)
        await asyncio.sleep(pause)
        self._set_timer(self.result.get_loop().time() + self._timeout)

    def _read(self, error: BaseException) -> float | None:
        """Handles what the tool raised: seconds until the next attempt, or None."""
        try:
            fault = fault_of(error, harmless=self.invoker.policy.harmless)
            if fault is not None:
                return self._retry(fault)
        except Exception as nonsense:
            error = nonsense
        self._fail(error)
        return None

    def _retry(self, fault: Fault) -> float | None:
        """Seconds until the next attempt; None if there is none, so that the fault is the result."""
        now = self.result.get_loop().time()
        expired = self._ending == "timeout"
        # At a timeout, one cancellation is our own; any other one is for the call.
        if self.outcome is not None or self._ending == "cancelled" or self._task.cancelling() > expired:
            self._attempts.end()
        pause = self._attempts.again(fault, None if self._latest is None else self._latest - now)
        if pause is None:
            self._settle((), fault)
            return None
        self._cancel_timer()
        if expired:
            self._task.uncancel()
            self._ending = None
        self._progress(0.0, None, self._attempts.describe(pause))
        return pause

    @contextlib.contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Stops the time of the call, but not that of the run, while a person is asked."""
        loop = self.result.get_loop()
        # Once the call is to end, its timer is the grace period.
        if not self._pauses and self._timer is not None and self._ending is None:
            self._left = max(self._timer.when() - loop.time(), 0.0)
            self._set_timer(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._ending is None and self.outcome is None:
                self._set_timer(loop.time() + self._left)

    def _set_timer(self, when: float | None) -> None:
        """Sets the end of the call, at most the end of its run. ``when`` is None while the call's time is stopped."""
        self._cancel_timer()
        latest = self._latest
        end = when if latest is None else latest if when is None else min(when, latest)
        if end is not None:
            self._timer = self.result.get_loop().call_at(end, self._end, "timeout")
        self._context.deadline = end

    def notify(self, notify: Callable[[Event], None], event: Event) -> None:
        """Passes an event of this call on, from any thread; drops it when the call has its outcome."""
        if threading.get_ident() != self._thread:
            self.result.get_loop().call_soon_threadsafe(self.notify, notify, event)
        elif self.outcome is None:
            notify(event)

    def _succeed(self, value: object) -> None:
        outcome = value if isinstance(value, Outcome) else None
        contents = contents_of(value)
        self._settle(contents, self._check_structure(value), outcome)

    def _check_structure(self, value: object) -> Fault | None:
        schema = self.invoker.results
        structure = None if schema is None else structure_of(value)
        if schema is None or structure is None:
            return None
        problems = schema.validate(thaw(structure))
        if not problems:
            return None
        return Fault(
            category="execution",
            message=legible(f"The result does not match the schema of its tool: {problems[0].message}"),
            code="result_invalid",
        )

    def _fail(self, error: BaseException) -> None:
        """Handles a bug of the tool: no retry. The model gets the type of the error, the application all of it."""
        if self.outcome is not None:
            return
        self.bug = error
        self._alert(f"The tool failed with {reason(error)}")
        self._settle(
            (),
            Fault(
                category="execution",
                message=f"The tool {self.invoker.exposed!r} failed unexpectedly ({type(error).__name__}).",
                code="tool_failure",
                recoverable=False,
                suggestion="This is a bug in the tool, not in the call. Try another way.",
            ),
        )

    def cancel(self) -> None:
        """Asks the tool to stop. After two seconds the call has its result in any case."""
        self._attempts.end()
        self._end("cancelled")

    def withdraw(self, fault: Fault) -> None:
        """Takes back a call that could not be recorded, before it runs; ``fault`` is its result."""
        self.withdrawn = True
        self._ending = "cancelled"
        self._task.cancel()
        self._settle((), fault)

    def _end(self, ending: Category) -> None:
        if self.outcome is not None or self._ending is not None:
            return
        self._ending = ending
        self._context.cancelled = ending == "cancelled"
        self._cancel_timer()
        self._task.cancel()
        if self._entered:
            self._timer = asyncio.get_running_loop().call_later(owner.GRACE, self._abandon)
        else:
            self._settle((), Fault(category=ending, message="The call was ended before it began."))

    def _stop(self) -> float | None:
        """Handles a tool that stopped when cancelled: seconds until the next attempt, or None."""
        harmless = self.invoker.policy.harmless
        return self._retry(self._ended(self._ending or "cancelled", None if harmless else VERIFY))

    def _abandon(self) -> None:
        """Gives up on a tool that does not stop: keeps a reference, alerts the application, drops its late result."""
        _ABANDONED.add(self._task)
        self._task.add_done_callback(_ABANDONED.discard)
        self._alert(f"The tool did not stop within {owner.GRACE:g} s after it was cancelled. It was abandoned.")
        if self.invoker.policy.harmless:
            self._settle((), self._ended(self._ending or "cancelled", None))
        else:
            self._settle((), self._ended("outcome_unknown", VERIFY))
        # Again, so that a task that only waits for a thread does not keep the event loop from ending.
        self._task.cancel()

    def _ended(self, category: Category, suggestion: str | None) -> Fault:
        if self._ending == "timeout":
            message = f"The call timed out after {self._timeout:g} s."
            suggestion = suggestion or SUGGESTIONS["timeout"]
        else:
            message = "The call was cancelled."
        return Fault(
            category=category,
            message=message,
            details=frozendict({"timeout_seconds": self._timeout} if self._ending == "timeout" else {}),
            suggestion=suggestion,
        )

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self, contents: tuple[Content, ...], error: Fault | None, outcome: Outcome | None = None) -> None:
        if self.outcome is not None:
            return
        bounded, total, cut = bound(contents, self._limit, self._keep)
        if outcome is None:
            # The fault of a program that failed has its exit code.
            code = None if error is None else error.details.get("exit_code")
            outcome = Outcome(content=(), exit_code=code if isinstance(code, int) else None)
        cut_stdout, cut_stderr = cut_streams(outcome, total, self._limit) if cut else (False, False)
        report = Report(
            duration_ms=(self.result.get_loop().time() - self._began) * 1000,
            exit_code=outcome.exit_code,
            changes=changes_of(outcome, self._context.changes.found),
            changes_unknown=self._context.changes.unknown,
            stdout_truncated=outcome.stdout_truncated or cut_stdout,
            stderr_truncated=outcome.stderr_truncated or cut_stderr,
            total_bytes=total if outcome.total_bytes is None else outcome.total_bytes,
            attempts=self._attempts.count,
            retried=self._attempts.retried,
            sandbox=outcome.sandbox or self._context.sandbox,
        )
        self.outcome = ResultCanister(
            invocation_id=self.invocation.identifier,
            content=bounded,
            error=None if error is None else bound_fault(error, self._limit, self._keep),
            report=report,
        )
        self._cancel_timer()
        settled = self._settled
        # These refer to this call: with them, its results would stay until the next garbage collection.
        del self._context, self._progress, self._settled
        settled(self)

    def deliver(self) -> None:
        """Sets ``result``: the outcome is recorded."""
        if self.outcome is not None and not self.result.done():
            self.result.set_result(self.outcome)
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        """Waits for ``result``, which a cancellation leaves as it is. ``asyncio.wait`` takes one turn more."""
        if not self.result.done():
            waiter = self.result.get_loop().create_future()
            self._waiters = (*self._waiters, waiter)
            await waiter


async def settle(calls: Sequence[Call]) -> None:
    """Waits until each of these calls has its result.

    A cancellation meanwhile cancels all of them too, and is raised when they have their results.
    """
    cancelled: asyncio.CancelledError | None = None
    for call in calls:
        while not call.result.done():
            try:
                await call.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                for one in calls:
                    one.cancel()
    if cancelled is not None:
        raise cancelled


#: Tasks that ignored their cancellation. Without a reference they could be garbage-collected while they run.
_ABANDONED: set[asyncio.Task[None]] = set()
