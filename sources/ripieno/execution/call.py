"""One call under way: a task of its own, a deadline, a grace, and exactly one result.

Whatever the tool does (raise, exit, hang, swallow its cancellation, return nonsense), ``result`` is set once. Where
repeating is safe, an attempt that failed for what may pass is followed by another one, in the same task.
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
from ripieno.canisters.faults import Category, Fault, Report
from ripieno.ensembles import Context, Invoker, Outcome, owner
from ripieno.ensembles.owner import reason
from ripieno.exceptions import ToolFault
from ripieno.execution.results import Keep, bound, bound_fault, changes_of, contents_of, structure_of
from ripieno.execution.retries import Attempts
from ripieno.jsonvalues import thaw

_VERIFY = "It may have done part of its work: check before repeating it."


class Call:
    """A call from its start to its result. ``early``: begun while the model still streamed.

    ``timeout`` seconds are for each attempt, ``latest`` seconds for all of them and the pauses between them. ``bug`` is
    what the tool raised without meaning a model to read it. ``progress``, ``settled`` is told of the
    outcome, which it has ``deliver``; it and ``alert`` must not raise.
    """

    __slots__ = (
        "_alert",
        "_arguments",
        "_attempts",
        "_began",
        "_context",
        "_ending",
        "_entered",
        "_keep",
        "_latest",
        "_left",
        "_limit",
        "_pauses",
        "_progress",
        "_settled",
        "_task",
        "_thread",
        "_timeout",
        "_timer",
        "bug",
        "early",
        "invocation",
        "invoker",
        "outcome",
        "result",
        "withdrawn",
    )

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
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        self.bug: BaseException | None = None
        self.withdrawn = False
        #: What came of it, which is the ``result`` as soon as it is delivered.
        self.outcome: ResultCanister | None = None
        self._context = context
        self._arguments = arguments
        self._timeout = timeout
        self._limit = limit
        self._keep = keep
        self._attempts = attempts
        self._progress = progress
        self._settled = settled
        self._alert = alert
        self._ending: Category | None = None
        self._entered = False
        self._thread = threading.get_ident()
        loop = asyncio.get_running_loop()
        self.result: asyncio.Future[ResultCanister] = loop.create_future()
        self._began = now = loop.time()
        #: When the run's own time ends; whoever is waited for does not make it longer.
        self._latest = None if latest is None else now + latest
        self._pauses = 0
        self._left = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer(now + timeout)
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        """Runs the tool. Nothing leaves here: an exit inside a task would end the event loop and every sibling."""
        self._entered = True
        pause: float | None = 0.0
        while pause is not None:
            try:
                if pause or self._attempts.count:
                    await self._rest(pause)
                self._attempts.count += 1
                # A tool may change what it is given; the next attempt is given the same.
                value = await self.invoker.perform(self._context, thaw(self._arguments))
            except GeneratorExit:  # The loop was closed over it; nobody is left to tell.
                raise
            except ToolFault as fault:
                try:
                    pause = self._give(Fault.raised(fault))
                except Exception as error:
                    pause = None
                    self._fail(error)
            except BaseException as error:
                if self._ending is None and isinstance(error, asyncio.CancelledError) and self._task.cancelling():
                    self._ending = "cancelled"  # By somebody else, as a loop does when it ends.
                if self._ending is None:
                    pause = None
                    self._fail(error)
                else:
                    # However a tool puts it: this is how it took its cancellation.
                    pause = self._stop()
            else:
                pause = None
                try:
                    self._succeed(value)
                except Exception as nonsense:
                    self._fail(nonsense)

    async def _rest(self, pause: float) -> None:
        """Waits before another attempt, whose own time begins then."""
        self._set_timer(None)
        await asyncio.sleep(pause)
        self._set_timer(self.result.get_loop().time() + self._timeout)

    def _give(self, fault: Fault) -> float | None:
        """Seconds until the next attempt; None when there is none, and the fault is the result."""
        now = self.result.get_loop().time()
        expired = self._ending == "timeout"
        # One cancellation is our own, at the end of the attempt's time; any other is meant for the call.
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
        self._progress(0.0, None, self._attempts.tell(pause))
        return pause

    @contextlib.contextmanager
    def paused(self) -> Generator[None, None, None]:
        """While a person is waited for: the time of the call does not pass, and that of the run does."""
        loop = self.result.get_loop()
        if not self._pauses and self._timer is not None:
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
        """The call ends then, or when its run has no time left; ``when`` is None while its own time stands still."""
        self._cancel_timer()
        ends = [one for one in (when, self._latest) if one is not None]
        if ends:
            self._timer = self.result.get_loop().call_at(min(ends), self._expire)
        self._context.deadline = min(ends, default=None)

    def tell(self, notify: Callable[[Event], None], event: Event) -> None:
        """Tells an event of this call, from whichever thread; nothing is told of it after its result."""
        if threading.get_ident() != self._thread:
            self.result.get_loop().call_soon_threadsafe(self.tell, notify, event)
        elif self.outcome is None:
            notify(event)

    def _succeed(self, value: object) -> None:
        outcome = value if isinstance(value, Outcome) else None
        contents = contents_of(value)
        self._settle(contents, self._check_structure(value), outcome)

    def _check_structure(self, value: object) -> Fault | None:
        """What is wrong with structured output that its schema refuses; the text is kept beside it."""
        schema = self.invoker.results
        structure = None if schema is None else structure_of(value)
        if schema is None or structure is None:
            return None
        problems = schema.validate(thaw(structure))
        if not problems:
            return None
        return Fault(
            category="execution",
            message=legible(f"The result does not fit the schema of its tool: {problems[0].message}"),
            code="result_invalid",
        )

    def _fail(self, error: BaseException) -> None:
        """A bug of the tool: not tried again. The model learns the kind of error, the application all of it."""
        if self.outcome is not None:
            return
        self.bug = error
        self._alert(f"The tool failed with {reason(error)}")
        self._settle(
            (),
            Fault(
                category="execution",
                message=f"The tool {self.invoker.name!r} failed unexpectedly ({type(error).__name__}).",
                code="tool_failure",
                recoverable=False,
                suggestion="This is a bug in the tool, not in the call. Try another way.",
            ),
        )

    def _expire(self) -> None:
        self._end("timeout")

    def cancel(self) -> None:
        """Asks the tool to stop; two seconds later its result comes without it."""
        self._attempts.end()
        self._end("cancelled")

    def withdraw(self, fault: Fault) -> None:
        """Takes back a call before it has begun to run: nothing of it was written down, and its result says why."""
        self.withdrawn = True
        self._ending = "cancelled"
        self._task.cancel()
        self._settle((), fault)

    def _end(self, ending: Category) -> None:
        if self.outcome is not None or self._ending is not None:
            return
        self._ending = ending
        self._cancel_timer()
        self._task.cancel()
        if self._entered:
            self._timer = asyncio.get_running_loop().call_later(owner.GRACE, self._abandon)
        else:
            self._settle((), Fault(category=ending, message="The call was ended before it began."))

    def _stop(self) -> float | None:
        """The tool heeded its cancellation; seconds until it is tried again, if it is."""
        harmless = self.invoker.policy.harmless
        return self._give(self._ended(self._ending or "cancelled", None if harmless else _VERIFY))

    def _abandon(self) -> None:
        """The tool goes on without us: kept referenced, told to the application, its late result dropped."""
        _ABANDONED.add(self._task)
        self._task.add_done_callback(_ABANDONED.discard)
        self._alert(f"The tool did not stop {owner.GRACE:g} s after it was cancelled, and was left behind.")
        if self.invoker.policy.harmless:
            self._settle((), self._ended(self._ending or "cancelled", None))
        else:
            self._settle((), self._ended("outcome_unknown", _VERIFY))
        # Once more, so that a task which only waits for a thread does not keep the event loop from ending.
        self._task.cancel()

    def _ended(self, category: Category, suggestion: str | None) -> Fault:
        if self._ending == "timeout":
            message = f"The call timed out after {self._timeout:g} s."
            suggestion = suggestion or "Break the operation into smaller steps, or allow it more time."
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
        duration = (self.result.get_loop().time() - self._began) * 1000
        sandbox = self._context.sandbox
        if outcome is None:
            # A program that failed is a fault, and its exit code is worth knowing all the same.
            code = None if error is None else error.details.get("exit_code")
            report = Report(
                duration_ms=duration,
                exit_code=code if isinstance(code, int) else None,
                stdout_truncated=cut,
                total_bytes=total,
                attempts=self._attempts.count,
                retried=self._attempts.retried,
                sandbox=sandbox,
            )
        else:
            report = Report(
                duration_ms=duration,
                exit_code=outcome.exit_code,
                changes=changes_of(outcome),
                stdout_truncated=outcome.stdout_truncated or cut,
                stderr_truncated=outcome.stderr_truncated,
                total_bytes=total if outcome.total_bytes is None else outcome.total_bytes,
                attempts=self._attempts.count,
                retried=self._attempts.retried,
                sandbox=outcome.sandbox or sandbox,
            )
        self.outcome = ResultCanister(
            invocation_id=self.invocation.identifier,
            content=bounded,
            error=None if error is None else bound_fault(error, self._limit, self._keep),
            report=report,
        )
        self._cancel_timer()
        self._settled(self)

    def deliver(self) -> None:
        """Gives the outcome to whoever waits for the result: it is written down."""
        if self.outcome is not None and not self.result.done():
            self.result.set_result(self.outcome)


async def settle(calls: Sequence[Call]) -> None:
    """Waits until each of these calls has its result.

    A cancellation that comes meanwhile cancels all of them too, and is raised when they have their results.
    """
    cancelled: asyncio.CancelledError | None = None
    while waiting := [call.result for call in calls if not call.result.done()]:
        try:
            await asyncio.wait(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
            for call in calls:
                call.cancel()
    if cancelled is not None:
        raise cancelled


#: Tasks that did not heed their cancellation; without a reference they could vanish in the middle.
_ABANDONED: set[asyncio.Task[None]] = set()
