"""One call under way: a task of its own, a deadline, a grace, and exactly one result.

Whatever the tool does (raise, exit, hang, swallow its cancellation, return nonsense), ``result`` is set once.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.contents import Content, legible
from ripieno.ensembles import Context, Invoker, Outcome
from ripieno.events import Event
from ripieno.exceptions import ToolFault
from ripieno.faults import Category, Fault, Report
from ripieno.jsonvalues import thaw
from ripieno.owning import reason
from ripieno.results import bound, bound_fault, changes_of, contents_of, structure_of

#: Seconds between a cancellation and giving up on a tool that does not heed it.
GRACE = 2.0
_VERIFY = "It may have done part of its work: check before repeating it."


class Call:
    """A call from its start to its result. ``early``: begun while the model still streamed.

    ``bug`` is what the tool raised without meaning a model to read it. ``settled`` and ``alert`` must not raise.
    """

    __slots__ = (
        "_alert",
        "_arguments",
        "_began",
        "_context",
        "_ending",
        "_entered",
        "_latest",
        "_left",
        "_limit",
        "_pauses",
        "_settled",
        "_task",
        "_thread",
        "_timeout",
        "_timer",
        "bug",
        "early",
        "invocation",
        "invoker",
        "result",
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
        settled: Callable[["Call"], None],
        alert: Callable[[str], None],
    ) -> None:
        self.invocation = invocation
        self.invoker = invoker
        self.early = early
        self.bug: BaseException | None = None
        self._context = context
        self._arguments = arguments
        self._timeout = timeout
        self._limit = limit
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
        try:
            value = await self.invoker.perform(self._context, self._arguments)
        except GeneratorExit:  # The loop was closed over it; nobody is left to tell.
            raise
        except ToolFault as fault:
            try:
                self._settle((), Fault.raised(fault))
            except Exception as error:
                self._fail(error)
        except BaseException as error:
            if self._ending is None and isinstance(error, asyncio.CancelledError) and self._task.cancelling():
                self._ending = "cancelled"  # By somebody else, as a loop does when it ends.
            if self._ending is None:
                self._fail(error)
            else:
                # However a tool puts it: this is how it took its cancellation.
                self._stop()
        else:
            try:
                self._succeed(value)
            except Exception as nonsense:
                self._fail(nonsense)

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
            if not self._pauses and self._ending is None and not self.result.done():
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
        elif not self.result.done():
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
        """A bug of the tool. The model learns the kind of error, the application all of it."""
        if self.result.done():
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
        self._end("cancelled")

    def _end(self, ending: Category) -> None:
        if self.result.done() or self._ending is not None:
            return
        self._ending = ending
        self._cancel_timer()
        self._task.cancel()
        if self._entered:
            self._timer = asyncio.get_running_loop().call_later(GRACE, self._abandon)
        else:
            self._settle((), Fault(category=ending, message="The call was ended before it began."))

    def _stop(self) -> None:
        """The tool heeded its cancellation."""
        harmless = self.invoker.policy.harmless
        self._settle((), self._ended(self._ending or "cancelled", None if harmless else _VERIFY))

    def _abandon(self) -> None:
        """The tool goes on without us: kept referenced, told to the application, its late result dropped."""
        _ABANDONED.add(self._task)
        self._task.add_done_callback(_ABANDONED.discard)
        self._alert(f"The tool did not stop {GRACE:g} s after it was cancelled, and was left behind.")
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
        if self.result.done():
            return
        bounded, total, cut = bound(contents, self._limit)
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
                attempts=1,
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
                attempts=1,
                sandbox=outcome.sandbox or sandbox,
            )
        canister = ResultCanister(
            invocation_id=self.invocation.identifier,
            content=bounded,
            error=None if error is None else bound_fault(error, self._limit),
            report=report,
        )
        self._cancel_timer()
        self.result.set_result(canister)
        self._settled(self)


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
