"""Turn after turn, until no invocation is left. Knows no vendor, no file and no screen."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Generator, Sequence
from typing import Any

from ripieno.canisters import Canister, SupervisorCanister, UserCanister
from ripieno.channels import Channel
from ripieno.controls import Controls, Finish, Limits
from ripieno.conversations import NO_USAGE, Conversation, Usage
from ripieno.ensembles import Ensemble, Invoker
from ripieno.events import (
    Alert,
    ConductEnded,
    ContentSealed,
    Event,
    InvocationSealed,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.exceptions import InputError, RipienoError, ToolExecutionFailure, UsageError, WireInvalidity
from ripieno.execution import Circumstances, Execution
from ripieno.iterating import Iteration, settled
from ripieno.limiting import Budget
from ripieno.models import Model
from ripieno.offers import Offer
from ripieno.owning import reason
from ripieno.scheduling import Turn
from ripieno.tokens import EstimatingTokenizer, ReportedTokenizer, TokenCount

#: Drivers under way: a task that nobody refers to could vanish in the middle.
_DRIVERS: set[asyncio.Task[None]] = set()


class Run:
    """One conduct under way. Nothing happens until it is iterated, awaited or entered.

    Then one task of its own does everything. Iterating gives the events, once; awaiting, also after iterating, gives
    the ``Conversation`` or raises. Leaving the loop, or the ``async with`` block, cancels whatever still runs.
    """

    def __init__(
        self,
        model: Model,
        conversation: Conversation,
        *,
        ensembles: Sequence[Ensemble] = (),
        tools: Sequence[str] | None = None,
        execution: Execution | None = None,
        auxdata: Any = None,
        controls: Controls | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.model = model
        #: What stands so far: it grows by whole turns, each with the results of all its calls.
        self.conversation = conversation
        self._ensembles = tuple(ensembles)
        self._tools = tools
        self._execution = execution or Execution()
        self._auxdata = auxdata
        self._controls = controls or Controls()
        self._limits = limits or self._execution.limits
        self._budget = Budget(self._limits)
        self._channel = Channel()
        self._memory: dict[object, Any] = {}
        self._tokenizer = ReportedTokenizer(EstimatingTokenizer(model.sends))
        self._task: asyncio.Task[None] | None = None
        self._driving = False
        self._cancelled = False
        self._iterated = False
        self._clashes: set[str] = set()
        self._offer = Offer(())
        self._revisions: tuple[int, ...] | None = None

    # How it is used.

    def __aiter__(self) -> AsyncIterator[Event]:
        if self._iterated:
            raise UsageError("A run is iterated once. Await it for the conversation, or conduct again.")
        if self._task is not None and not self._channel.open:
            raise UsageError("This run has begun without a listener; iterate it before it is awaited.")
        self._iterated = True
        self._channel.open = True
        return Iteration(self._channel, self._begin, self._wait, self._leave)

    def __await__(self) -> Generator[Any, None, Conversation]:
        # Whoever waits here takes no events meanwhile: the driver must not wait for that.
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

    @property
    def context(self) -> TokenCount:
        """The tokens that the conversation takes so far, with its tools: how full the model's context is."""
        return self._tokenizer.count(self.conversation.canisters, self._offer)

    def cancel(self) -> None:
        """Stops the run. Every call that was started still gets its result, within two seconds."""
        self._cancelled = True
        # A task that is cancelled before its first step would never say that it ended.
        if self._task is not None and self._driving:
            self._task.cancel()

    def _leave(self) -> None:
        """Whoever iterated is gone, which a collector of cycles may tell from any thread."""
        task = self._task
        loop = None if task is None else task.get_loop()
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if loop is not None and loop is not here:
            with contextlib.suppress(RuntimeError):  # It is closed, and with it everything that ran.
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
            self._task = asyncio.create_task(self._drive(), name="ripieno run")
            _DRIVERS.add(self._task)
            self._task.add_done_callback(_retire)
        return self._task

    # What the driving task does.

    async def _drive(self) -> None:
        self._driving = True
        budget = self._budget = Budget(self._limits)
        finish: Finish = "error"
        try:
            finish = await self._conduct()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not self._cancelled and task is not None and not task.cancelling():
                raise RipienoError("The run was cancelled from within: its model gave up without a reason.") from error
            finish = "cancelled"
            if not self._cancelled:  # The loop is ending.
                raise
        except ToolExecutionFailure:
            finish = "aborted"
            raise
        finally:
            self._driving = False
            self.conversation = self.conversation.replace(finish=finish)
            self._channel.put(ConductEnded(finish=finish, turns=budget.turns, calls=budget.calls, usage=budget.usage))
            self._channel.close()

    async def _conduct(self) -> Finish:
        if self.conversation.open:
            names = ", ".join(f"{one.name} ({one.identifier})" for one in self.conversation.open)
            raise InputError(f"These invocations wait for their results: {names}. Say those first.")
        for kind, count in self.model.left_out(self.conversation.canisters).items():
            self._channel.put(Alert(message=f"{count} of {kind} cannot be sent to {self.model.identity}: left out."))
        controls, urged = self._controls, False
        while not self._cancelled and self._budget.admits_turn():
            finish = await self._turn(controls)
            if finish == "stop" and controls.forced():
                self._urge(controls, again=urged)
                if not urged:
                    urged = True
                    continue
            if finish != "invocations":
                return finish
            controls = controls.relaxed()
        return "cancelled" if self._cancelled else "limit"

    def _urge(self, controls: Controls, *, again: bool) -> None:
        """Says once more what the model was told by its request, or, where its wire has no word for it, by a prompt.

        ``again``: that was done, and did not help.
        """
        wanted = "one of the tools" if controls.tool_choice == "required" else f"the tool {controls.tool_choice}"
        did_not = f"{self.model.identity} did not call {wanted}"
        if again:
            self._channel.put(Alert(message=f"{did_not} when it was asked once more, either: its answer stands."))
            return
        self._channel.put(Alert(message=f"{did_not}, and is asked once more."))
        said = UserCanister.of(f"Call {wanted} now. An answer without a call is none.")
        self.conversation = self.conversation.replace(canisters=(*self.conversation.canisters, said))

    async def _turn(self, controls: Controls) -> Finish:
        """One turn, with the results of its calls; it stands in the conversation when this returns or raises."""
        offer = self._refresh()
        # A tool that was allowed may go with its ensemble, but not before the first turn.
        controls = offer.narrow(controls, strict=self._budget.turns == 1)
        around = Circumstances(
            conversation=self.conversation.identifier,
            turn=self._budget.turns,
            auxdata=self._auxdata,
            namespaces=self.conversation.namespaces,
            notify=self._channel.put if self._channel.open else None,
            output=self._limits.output,
            history=self.conversation.canisters,
        )
        turn = Turn(
            execution=self._execution,
            offer=offer,
            around=around,
            budget=self._budget,
            allowed=() if controls.tool_choice == "none" else controls.allowed_tools,
            single=controls.parallel is False,
        )
        clock = asyncio.timeout(self._budget.seconds)
        try:
            async with clock:
                sealed, ended = await self._listen(offer, controls, turn)
            if self._cancelled:  # And the model did not heed it.
                raise asyncio.CancelledError
        except BaseException as error:
            await turn.drop()
            # A time-out may as well be the model's own, and no limit of ours.
            if clock.expired() and isinstance(error, Exception):
                return "limit"
            raise
        canisters = collect(sealed)
        try:
            if ended.finish == "invocations":
                await turn.finish()
            else:
                await turn.cut(ended.finish)
        finally:
            self._stand(canisters, turn, ended)
        return self._judge(turn, ended.finish, contents=any(isinstance(event, ContentSealed) for event in sealed))

    async def _listen(self, offer: Offer, controls: Controls, turn: Turn) -> tuple[list[Event], TurnEnded]:
        """Passes the model's events on, and seals calls as they come. Errors: ``ProviderFailure``."""
        sealed: list[Event] = []
        ended: TurnEnded | None = None
        channel, number = self._channel, self._budget.turns
        batches = self.model.batches(
            self.conversation.canisters,
            ensembles=offer,
            controls=controls,
            memory=self._memory,
            deltas=channel.open,
        )
        async with contextlib.aclosing(batches):
            async for batch in batches:
                for event in batch:
                    if isinstance(event, InvocationSealed | ContentSealed):
                        sealed.append(event)
                    elif isinstance(event, TurnBegan):
                        event = TurnBegan(model=event.model or self.model.identity, turn=number)  # noqa: PLW2901
                    elif isinstance(event, TurnEnded):
                        event = ended = dataclasses.replace(event, turn=number)  # noqa: PLW2901
                    channel.put(event)
                    if isinstance(event, InvocationSealed):
                        turn.seal(event.invocation)
                    if channel.full:
                        await channel.room()
        if ended is None:
            raise WireInvalidity(self.model.provider.name, "The answer had no end.")
        return sealed, ended

    def _refresh(self) -> Offer:
        """The snapshot that this turn offers: another one only when an ensemble has changed."""
        revisions = tuple(ensemble.revision for ensemble in self._ensembles)
        if revisions != self._revisions:
            first = self._revisions is None
            self._revisions = revisions
            self._offer = Offer.of(self._ensembles, tools=self._tools, left_out=None if first else self._leave_out)
        return self._offer

    def _leave_out(self, newcomer: Invoker, holder: Invoker) -> None:
        if newcomer.identity not in self._clashes:
            self._clashes.add(newcomer.identity)
            self._channel.put(
                Alert(message=f"It is left out: {holder.identity} has its name already.", tool=newcomer.identity)
            )

    def _stand(self, canisters: tuple[Canister, ...], turn: Turn, ended: TurnEnded) -> None:
        """The turn becomes part of the conversation, with the results of its calls in their order."""
        results = tuple(entry.result for entry in turn.entries if entry.result is not None)
        waiting = tuple(
            entry.invocation
            for entry in turn.entries
            if entry.invoker is not None and entry.invoker.hosted == "caller" and entry.result is None
        )
        before = self.conversation.canisters
        self._budget.spend(self._count(before, canisters) if ended.usage == NO_USAGE else ended.usage)
        self.conversation = self.conversation.replace(
            canisters=before + canisters + results,
            open=waiting,
            usage=self.conversation.usage + ended.usage,
        )
        self._tokenizer.learn(before + canisters, ended.usage)

    def _count(self, before: Sequence[Canister], canisters: Sequence[Canister]) -> Usage:
        """An estimate of a turn's tokens, where nobody counted them and a limit is set."""
        if self._limits.tokens is None:
            return NO_USAGE
        estimate = self._tokenizer.count
        return Usage(input_tokens=estimate(before, self._offer).tokens, output_tokens=estimate(canisters).tokens)

    def _judge(self, turn: Turn, finish: Finish, *, contents: bool) -> Finish:
        """What the results of a turn mean for the run. Errors: ``ToolExecutionFailure``."""
        for entry in turn.entries:
            call, result = entry.call, entry.result
            if call is not None and call.bug is not None and call.invoker.policy.on_error == "abort":
                raise ToolExecutionFailure(entry.tool, reason(call.bug)) from call.bug
            if result is not None and result.error is not None and result.error.category == "fatal":
                raise ToolExecutionFailure(entry.tool, result.error.message)
        if finish != "invocations":
            return finish
        if not turn.entries:
            # A provider's own tools take a break: it is asked again, with what it said. Without anything new it
            # would only say the same.
            return finish if contents else "stop"
        for entry in turn.entries:
            if entry.accomplished and entry.call is not None:
                self.conversation = self.conversation.replace(submission=entry.call.invocation)
                return "terminal"
        if self.conversation.open:
            return "open"
        return "limit" if self._budget.exhausted is not None else finish


def _retire(task: asyncio.Task[None]) -> None:
    _DRIVERS.discard(task)
    if not task.cancelled():
        # Whoever broke out of the loop does not ask for it; whoever awaits gets it all the same.
        task.exception()


def conduct(
    model: Model,
    what: str | Canister | Sequence[Canister] | Conversation,
    *,
    ensembles: Sequence[Ensemble] = (),
    tools: Sequence[str] | None = None,
    execution: Execution | None = None,
    supervisor: str | SupervisorCanister | None = None,
    auxdata: Any = None,
    controls: Controls | None = None,
    limits: Limits | None = None,
) -> Run:
    """A run over ``what``: a text, canisters, or a conversation. ``tools`` are patterns over ``ensemble.tool``.

    Everything comes as an argument; nothing happens before the run is iterated, awaited or entered.
    """
    conversation = Conversation.of(what)
    if supervisor is not None:
        instructions = SupervisorCanister.of(supervisor) if isinstance(supervisor, str) else supervisor
        canisters = conversation.canisters
        if not (canisters and canisters[0] == instructions):
            rest = canisters[1:] if canisters and isinstance(canisters[0], SupervisorCanister) else canisters
            conversation = conversation.replace(canisters=(instructions, *rest))
    return Run(
        model,
        conversation,
        ensembles=ensembles,
        tools=tools,
        execution=execution,
        auxdata=auxdata,
        controls=controls,
        limits=limits,
    )
