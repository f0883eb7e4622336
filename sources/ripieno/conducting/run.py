"""``Run``, with which an application starts, iterates, awaits and cancels a conduct."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any

from ripieno.approvals import Answer, Approve, Confirmer, Edit, Given
from ripieno.approvals.grants import Binding
from ripieno.canisters import Canister, Controls, Conversation, SupervisorCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.events import Event
from ripieno.conducting.driver import Driver, Watcher
from ripieno.conducting.history import History, HistoryStrategy
from ripieno.ensembles import Ensemble
from ripieno.ensembles.offers import only_ensembles
from ripieno.exceptions import InputError, UsageError
from ripieno.execution import Execution
from ripieno.jsonvalues import EMPTY, listed
from ripieno.models import Model
from ripieno.models.tokens import TokenCount


async def settled(task: asyncio.Task[None]) -> None:
    """Waits for a cancelled driver, which ends within the grace period; then raises a cancellation of the waiter."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


#: Drivers under way: without a reference, a task could be garbage-collected while it runs.
_DRIVERS: set[asyncio.Task[None]] = set()


class Run:
    """One conduct under way. Nothing happens until it is iterated, awaited or entered.

    Then one task of its own does all the work. Iterating yields the events, once; awaiting, also after iterating,
    returns the ``Conversation`` or raises. Leaving the loop, or the ``async with`` block, cancels the run.
    """

    class _Iteration(AsyncIterator[Event]):
        """The one iteration over a run. When it is garbage-collected, as after ``break``, the run is cancelled."""

        def __init__(self, run: "Run") -> None:
            self._run = run
            self._done = False

        async def __anext__(self) -> Event:
            run = self._run
            task = run._begin()
            try:
                event = await run._channel.get()
            except asyncio.CancelledError:
                self._done = True
                run._leave()
                await settled(task)
                raise
            if event is not None:
                return event
            self._done = True
            await run._wait()
            raise StopAsyncIteration

        def __del__(self) -> None:
            if not self._done:
                self._run._leave()

    def __init__(self, driver: Driver) -> None:
        self.model = driver.model
        self._driver = driver
        self._channel = driver.channel
        self._task: asyncio.Task[None] | None = None
        self._iterated = False

    def __repr__(self) -> str:
        """Part of the error of ``asyncio.run``, which takes coroutines alone."""
        return f"<Run of {self.model.identity}: await it, or iterate over it, in an async function>"

    @property
    def conversation(self) -> Conversation:
        """The conversation so far. It grows by whole turns, each with the results of all its calls."""
        return self._driver.conversation

    def __aiter__(self) -> AsyncIterator[Event]:
        if self._iterated:
            raise UsageError("A run can be iterated only once. Await it for the conversation, or conduct again.")
        if self._task is not None and not self._channel.open:
            raise UsageError("This run was awaited first and keeps no events. Iterate a run before you await it.")
        self._iterated = True
        self._channel.open = True
        return self._Iteration(self)

    def __await__(self) -> Generator[Any, None, Conversation]:
        # The waiting task takes no events meanwhile: the driver must not wait for it to do so.
        if self._iterated:
            self._channel.release()
        else:
            self._channel.mute()
        return self._wait().__await__()

    async def __aenter__(self) -> "Run":
        if self._task is None:
            self._channel.open = True
            self._begin()
        return self

    async def __aexit__(self, *details: object) -> None:
        if self._task is not None and not self._task.done():
            self.cancel()
            await settled(self._task)

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Calls a function with every event, also without an iteration. Before the run begins; it must not raise."""

        def begin(_conversation: str, _model: str) -> Callable[[Event], None]:
            return watcher

        self._driver.watchers = (*self._driver.watchers, begin)
        self._driver.followed = True

    def carry_out(self, submission: str) -> None:
        """Records the identifier of a submission at the beginning and, unless it is cancelled, at the end.

        Before the run begins.
        """
        self._driver.carry_out(submission)

    @property
    def unrecorded(self) -> bool:
        """Whether the run has ended, and its end could not be recorded, because the recorder cannot be reached."""
        return self._driver.unrecorded

    @property
    def context(self) -> TokenCount:
        """The tokens of the conversation so far, with its tools: how full the model's context is."""
        return self._driver.context

    async def revise(self, invocation: str, arguments: Mapping[str, Any]) -> Waiting:
        """An open call with other arguments, as a person is shown it before an ``Edit``; nothing runs.

        Errors: ``InputError`` with the reason if the call would be refused.
        """
        return await self._driver.revise(invocation, arguments)

    def cancel(self) -> None:
        """Cancels the run. Every call that was started still gets its result, within two seconds."""
        self._driver.cancelled = True
        # A task that is cancelled before its first step would never emit its end.
        if self._task is not None and self._driver.driving:
            self._task.cancel()

    def _leave(self) -> None:
        """Cancels the run when its iteration is gone; the garbage collector may call this from any thread."""
        task = self._task
        loop = None if task is None else task.get_loop()
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if loop is not None and loop is not here:
            with contextlib.suppress(RuntimeError):  # The loop is closed, and its tasks have ended.
                loop.call_soon_threadsafe(self._leave)
            return
        self._channel.mute()
        self.cancel()

    async def _wait(self) -> Conversation:
        task = self._begin()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            self.cancel()
            await settled(task)
            raise
        return self.conversation

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            self._task = asyncio.create_task(self._driver.drive(), name="ripieno run")
            _DRIVERS.add(self._task)
            self._task.add_done_callback(_retire)
        return self._task


def _retire(task: asyncio.Task[None]) -> None:
    _DRIVERS.discard(task)
    if not task.cancelled():
        # Retrieved, so that asyncio logs no warning if the run is never awaited.
        task.exception()


def conduct(
    model: Model,
    what: str | Canister | Sequence[Canister] | Conversation,
    *,
    ensembles: Sequence[Ensemble] = (),
    tools: Sequence[str] | None = None,
    execution: Execution | None = None,
    supervisor: str | SupervisorCanister | None = None,
    labels: Mapping[str, str] = EMPTY,
    owner: str = "",
    confirmer: Confirmer | None = None,
    auxdata: Any = None,
    controls: Controls | None = None,
    limits: Limits | None = None,
    history: History | HistoryStrategy | None = None,
    answers: Mapping[str, Answer | Given] | None = None,
    watchers: Sequence[Watcher] = (),
) -> Run:
    """A run over ``what``: a text, canisters, or a conversation. ``tools``, one or several, are patterns over
    ``ensemble.tool``.

    Nothing happens before the run is iterated, awaited or entered. ``labels`` are recorded with its beginning.
    ``owner`` is the user for whom it is made: what a person allows ``always`` counts for this owner and this
    conversation only. ``confirmer`` is asked instead of the execution's. ``answers`` are a person's answers that were
    given in advance, by the identifiers of open invocations: for the calls as ``conversation.waiting`` has them, or as
    a ``Given`` says.

    Errors: ``UsageError`` for names in place of ensembles, and values of other classes; ``InputError`` for an answer to
    a call of which the conversation does not say what was shown.
    """
    _expect(Model, model=model)
    _expect(Controls, controls=controls)
    _expect(Limits, limits=limits)
    conversation = Conversation.of(what)
    given = only_ensembles(ensembles)
    if supervisor is not None:
        instructions = SupervisorCanister.of(supervisor) if isinstance(supervisor, str) else supervisor
        canisters = conversation.canisters
        if not (canisters and canisters[0] == instructions):
            rest = canisters[1:] if canisters and isinstance(canisters[0], SupervisorCanister) else canisters
            conversation = conversation.replace(canisters=(instructions, *rest))
    pipeline = execution or Execution()
    driver = Driver(
        model=model,
        conversation=conversation,
        ensembles=given,
        tools=None if tools is None else listed(tools),
        execution=pipeline,
        labels=labels,
        owner=owner,
        confirmer=confirmer,
        auxdata=auxdata,
        controls=controls or Controls(),
        limits=limits or pipeline.limits,
        history=history,
        answers=_bound(answers or {}, conversation),
        watchers=watchers,
    )
    return Run(driver)


def _expect(kind: type, **given: Any) -> None:
    """Errors: ``UsageError`` for an argument that is neither None nor of this class."""
    for name, value in given.items():
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"The argument {name} takes {kind.__name__}, not {type(value).__name__}: {value!r:.100}")


def _bound(answers: Mapping[str, Answer | Given], conversation: Conversation) -> Mapping[str, Answer | Given]:
    """The answers, each for the call that was shown."""
    shown: dict[str, Any] = {one.invocation: one.binding for one in conversation.waiting if one.binding}
    behind = [one.invocation for one in conversation.waiting if one.why == "behind"]
    bound = dict(answers)
    for invocation, answer in answers.items():
        if isinstance(answer, Approve | Edit):
            if invocation in behind:
                raise InputError(
                    f"The call {invocation!r} waits for an earlier one, and was not shown yet. Answer only those whose "
                    '"why" is "approval"; this one is asked about in the next run.'
                )
            if invocation not in shown:
                raise InputError(
                    f"The answer to {invocation!r} cannot be valid: the conversation does not say what was shown. "
                    "Conduct it with a DeferredConfirmer, which asks again, and answer that conversation."
                )
            bound[invocation] = Given(answer=answer, binding=Binding(**shown[invocation]))
    return bound
