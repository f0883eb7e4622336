"""The work of a run: turn after turn, with the calls of each."""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from frozendict import frozendict

from ripieno.approvals import Answer, Confirmer, Given
from ripieno.canisters import Canister, Controls, Conversation, UserCanister
from ripieno.canisters.controls import Finish, Limits
from ripieno.canisters.conversation import NO_USAGE, Usage, Waiting, assistant_begins
from ripieno.canisters.events import (
    Alert,
    ConductEnded,
    ContentSealed,
    Event,
    InvocationSealed,
    TurnBegan,
    TurnEnded,
    collect,
)
from ripieno.conducting.channel import Channel
from ripieno.conducting.chronicle import Chronicle
from ripieno.conducting.history import History, HistoryStrategy, HistoryView
from ripieno.conducting.resume import lost_results, with_results
from ripieno.ensembles import Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.ensembles.owner import reason
from ripieno.ensembles.placed import workspace_of
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, RipienoError, ToolExecutionFailure, WireInvalidity
from ripieno.execution import Circumstances, Execution
from ripieno.execution.budget import Budget
from ripieno.execution.context import Deferred
from ripieno.execution.scheduling.dispatcher import ScheduledCall, Why
from ripieno.execution.scheduling.turn import Turn
from ripieno.jsonvalues import freeze, freeze_containers
from ripieno.models import Model
from ripieno.models.reasoning import ReasoningKeeper, is_for_people
from ripieno.models.tokens import EstimatingTokenizer, ReportedTokenizer, TokenCount
from ripieno.storage.journal import Journal

#: Called when a run begins, with the identifier of its conversation and the identity of its model. Returns a function
#: that gets its events, but for deltas if the run is neither iterated nor followed, and must not raise.
Watcher: TypeAlias = Callable[[str, str], Callable[[Event], None]]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Driver:
    """Conducts one conversation, for one run."""

    model: Model
    conversation: Conversation
    ensembles: Sequence[Ensemble]
    tools: Sequence[str] | None
    execution: Execution
    labels: Mapping[str, str]
    owner: str
    confirmer: Confirmer | None
    auxdata: Any
    controls: Controls
    limits: Limits
    history: dataclasses.InitVar[History | HistoryStrategy | None]
    answers: Mapping[str, Answer | Given]
    watchers: Sequence[Watcher]

    def __post_init__(self, history: History | HistoryStrategy | None) -> None:
        self.auxdata = freeze_containers(self.auxdata)
        self.driving = False
        self.cancelled = False
        #: Whether a function gets each piece of an answer, beside the channel.
        self.followed = False
        self._budget = Budget(self.limits)
        self.channel = Channel()
        self._memory: dict[object, Any] = {}
        self._view = HistoryView(
            history, model=self.model, controls=self.controls, memory=self._memory, alert=self.channel.notify
        )
        self._tokenizer = ReportedTokenizer(EstimatingTokenizer(self.model.sends))
        self._clashes: set[str] = set()
        self._offer = Offer(())
        self._revisions: tuple[int, ...] | None = None
        self._chronicle = Chronicle(self.execution.reporter, self.conversation, self.owner)
        #: The number of answers in the conversation before this run.
        self._earlier_turns = sum(assistant_begins(self.conversation.canisters))
        #: The provider's name of the model that answers.
        self._model_name = ""

    def carry_out(self, submission: str) -> None:
        """Records that this is the run of a submission. Before it begins."""
        self._chronicle.submitted = submission

    @property
    def unrecorded(self) -> bool:
        """Whether the end of the run could not be recorded, because the recorder cannot be reached."""
        return self._chronicle.unrecorded

    @property
    def context(self) -> TokenCount:
        """The tokens of the shown part of the conversation so far, with its tools."""
        return self._tokenizer.count(self._view.latest(self.conversation.canisters), self._offer)

    async def drive(self) -> None:
        """Conducts until no invocation is left.

        Errors: those of the model; ``ToolExecutionFailure``; ``Superseded``; ``Disconnected`` of a submission.
        """
        self.driving = True
        watching = (watch(self.conversation.identifier, self.model.identity) for watch in self.watchers)
        self.channel.watching = tuple(watching)
        budget = self._budget = Budget(self.limits)
        finish: Finish = "error"
        try:
            finish = await self._conduct()
            if finish == "limit":
                self.channel.notify(Alert(message=f"The run ended: it is limited to {budget.exhausted}."))
            await self._chronicle.finish()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not self.cancelled and task is not None and not task.cancelling():
                raise RipienoError("The run was cancelled by its own model, which gave no reason.") from error
            finish = "cancelled"
            if not self.cancelled:  # The loop is ending.
                raise
        except ToolExecutionFailure:
            finish = "aborted"
            raise
        finally:
            self.driving = False
            self.conversation = self.conversation.replace(finish=finish)
            self._chronicle.end(self._circumstances(), finish, budget)
            try:
                await self._chronicle.settled()
            finally:
                self._chronicle.note(self.conversation)
                self.channel.notify(
                    ConductEnded(finish=finish, turns=budget.turns, calls=budget.calls, usage=budget.usage)
                )
                self.channel.close()

    async def revise(self, identifier: str, arguments: Mapping[str, Any]) -> Waiting:
        """An open call with edited arguments, as it would wait for approval. Errors: ``InputError``."""
        found = [one for one in self.conversation.open if one.identifier == identifier]
        if not found:
            raise InputError(f"No open call has the identifier {identifier!r}.")
        revised = await self.execution.revise(found[0], self._refresh(), self._circumstances(), arguments)
        return _waiting(identifier, revised.prepared.invoker.identity, "approval", revised)

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            owner=self.owner,
            confirmer=self.confirmer,
            conversation=self.conversation.identifier,
            turn=self._earlier_turns + self._budget.turns,
            auxdata=self.auxdata,
            namespaces=self.conversation.namespaces,
            notify=self.channel.notify if self.channel.heard else None,
            output=self.limits.output,
            history=self.conversation.canisters,
            answers=self.answers,
        )

    async def _conduct(self) -> Finish:
        found = [(one, self._refresh().named(one.name)) for one in self.conversation.open]
        waiting = [one for one, invoker in found if invoker is not None and invoker.hosted == "caller"]
        if waiting:
            names = ", ".join(f"{one.name} ({one.identifier})" for one in waiting)
            advice = 'Say those first, or decline them: conversation.decline_open("reason").'
            raise InputError(f"These invocations wait for their results: {names}. {advice}")
        await self._accept_losses()
        participants = {
            **self.labels,
            "model": self.model.identity,
            "ensembles": [ensemble.name for ensemble in self.ensembles],
            "tools": None if self.tools is None else list(self.tools),
            "workspace": workspace_of(self.ensembles, self.execution.surroundings),
        }
        await self._chronicle.begin(self.conversation, self._circumstances(), participants)
        for kind, count in self.model.left_out(self.conversation.canisters).items():
            self.channel.notify(Alert(message=f"{count} of {kind} cannot be sent to {self.model.identity}: left out."))
        if self.conversation.open:
            # Cancelled before any call could begin, its answers can be given again.
            finish: Finish = "cancelled" if self.cancelled else await self._resume()
            if finish != "invocations":
                return finish
        controls, urged = self.controls, False
        while not self.cancelled and self._budget.admits_turn():
            self._chronicle.check()
            finish = await self._turn(controls)
            if finish == "stop" and controls.forced():
                self._urge(controls, again=urged)
                if not urged:
                    urged = True
                    continue
            if finish != "invocations":
                return finish
            controls = controls.relaxed()
        return "cancelled" if self.cancelled else "limit"

    async def _accept_losses(self) -> None:
        """Gives open calls that another program had started, and whose end is not recorded, their results."""
        recorder = self.execution.reporter.recorder
        if self.conversation.open and isinstance(recorder, Journal):
            look = functools.partial(lost_results, recorder, self.conversation, self.owner)
            lost = await run_in_thread(look, name="journal", patient=False) if recorder.remote else look()
            self.conversation = with_results(lost, self.conversation)

    def _urge(self, controls: Controls, *, again: bool) -> None:
        """Asks a model that made no call, although one is required, for the call once more; if ``again``, gives up."""
        wanted = "one of the tools" if controls.tool_choice == "required" else f"the tool {controls.tool_choice}"
        did_not = f"{self.model.identity} did not call {wanted}"
        if again:
            self.channel.notify(Alert(message=f"{did_not} after a second request, either: its answer is accepted."))
            return
        self.channel.notify(Alert(message=f"{did_not}: it is asked once more."))
        request = UserCanister.of(f"Call {wanted} now. An answer without a call is not accepted.")
        self.conversation = self.conversation.replace(canisters=(*self.conversation.canisters, request))
        self._chronicle.say(self.conversation, self._circumstances())

    async def _turn(self, controls: Controls) -> Finish:
        """One turn with the results of its calls, which are in the conversation when this returns or raises."""
        offer = self._refresh()
        # An allowed tool may vanish with its ensemble, but not before the first turn.
        controls = offer.narrow(controls, strict=self._budget.turns == 1)
        scope = self._circumstances()
        turn = Turn(
            execution=self.execution,
            offer=offer,
            scope=scope,
            budget=self._budget,
            allowed=() if controls.tool_choice == "none" else controls.allowed_tools,
            forced=controls.forced_tool(),
            single=controls.parallel is False,
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        clock = asyncio.timeout(self._budget.seconds)
        try:
            async with clock:
                sealed, ended = await self._listen(offer, controls, turn)
            if self.cancelled:  # The model ignored the cancellation.
                raise asyncio.CancelledError
        except BaseException as error:
            await turn.drop()
            # A timeout may also be the model's own, and not a limit of the run.
            if clock.expired() and isinstance(error, Exception):
                self._budget.expire("the answer of the model was cut off")
                return "limit"
            raise
        canisters = collect(sealed)
        model, seconds = self._model_name or self.model.identity, loop.time() - began
        self._chronicle.answer(self.conversation, canisters, ended, scope, model=model, seconds=seconds)
        try:
            if ended.finish == "invocations":
                await turn.finish()
            else:
                await turn.cut(ended.finish)
        finally:
            self._append(canisters, turn, ended)
        contents = any(isinstance(event, ContentSealed) and not is_for_people(event.content) for event in sealed)
        return self._judge(turn, ended.finish, contents=contents)

    async def _listen(self, offer: Offer, controls: Controls, turn: Turn) -> tuple[list[Event], TurnEnded]:
        """Passes the model's events on, and seals calls as they come. Errors: ``ProviderFailure``."""
        sealed: list[Event] = []
        ended: TurnEnded | None = None
        channel, number, keeper = self.channel, self._budget.turns, ReasoningKeeper()
        deltas = channel.open or self.followed
        batches = self.model.batches(
            await self._show(offer), ensembles=offer, controls=controls, memory=self._memory, deltas=deltas
        )
        async with contextlib.aclosing(batches):
            async for batch in batches:
                for event in keeper.hear(batch):
                    if isinstance(event, InvocationSealed | ContentSealed):
                        sealed.append(event)
                    elif isinstance(event, TurnBegan):
                        self._model_name = event.model or self.model.identity
                        event = TurnBegan(model=self._model_name, turn=number)  # noqa: PLW2901
                    elif isinstance(event, TurnEnded):
                        event = ended = dataclasses.replace(event, turn=number)  # noqa: PLW2901
                    channel.notify(event)
                    if isinstance(event, InvocationSealed):
                        turn.seal(event.invocation)
                    if channel.full:
                        await channel.room()
        if ended is None:
            raise WireInvalidity(self.model.provider.name, "The answer had no end.")
        return sealed, ended

    async def _show(self, offer: Offer) -> Sequence[Canister]:
        """The part of the conversation that the model is shown. The tokens for a summary count as well."""
        conversation = self.conversation
        waiting = [one.identifier for one in conversation.open]
        shown = await self._view.show(conversation.canisters, open=waiting, offer=offer)
        if shown.usage != NO_USAGE:
            self._budget.spend(shown.usage)
            self.conversation = conversation.replace(usage=conversation.usage + shown.usage)
        return shown.canisters

    def _refresh(self) -> Offer:
        """The snapshot that this turn offers; a new one only when an ensemble has changed."""
        revisions = tuple(ensemble.revision for ensemble in self.ensembles)
        if revisions != self._revisions:
            first = self._revisions is None
            self._revisions = revisions
            self._offer = Offer.of(self.ensembles, tools=self.tools, left_out=None if first else self._leave_out)
        return self._offer

    def _leave_out(self, newcomer: Invoker, holder: Invoker) -> None:
        if newcomer.identity not in self._clashes:
            self._clashes.add(newcomer.identity)
            self.channel.notify(
                Alert(message=f"Not offered: {holder.identity} already has its name.", tool=newcomer.identity)
            )

    async def _resume(self) -> Finish:
        """Runs the calls of the last answer that waited for a person, or were interrupted."""
        offer = self._refresh()
        turn = Turn(execution=self.execution, offer=offer, scope=self._circumstances(), budget=self._budget)
        for invocation in self.conversation.open:
            turn.seal(invocation)
        try:
            await turn.finish()
        finally:
            self._append((), turn)
        return self._judge(turn, "invocations", contents=True)

    def _append(self, canisters: tuple[Canister, ...], turn: Turn, ended: TurnEnded | None = None) -> None:
        results = tuple(entry.result for entry in turn.entries if entry.result is not None)
        before = self.conversation.canisters
        shown = self._view.latest(before)
        usage = NO_USAGE if ended is None else ended.usage
        if ended is not None:
            self._budget.spend(self._count(shown, canisters) if usage == NO_USAGE else usage)
        self.conversation = self.conversation.replace(
            canisters=before + canisters + results,
            open=tuple(entry.invocation for entry in turn.entries if entry.why is not None),
            waiting=tuple(filter(None, map(_waits, turn.entries))),
            usage=self.conversation.usage + usage,
        )
        self._chronicle.skip(self.conversation, len(results))
        self._tokenizer.learn((*shown, *canisters), usage)

    def _count(self, shown: Sequence[Canister], canisters: Sequence[Canister]) -> Usage:
        """An estimate of a turn's tokens, if a limit is set and the provider reported none."""
        if self.limits.tokens is None:
            return NO_USAGE
        estimate = self._tokenizer.count
        return Usage(input_tokens=estimate(shown, self._offer).tokens, output_tokens=estimate(canisters).tokens)

    def _judge(self, turn: Turn, finish: Finish, *, contents: bool) -> Finish:
        """The finish after a turn; "invocations" to go on. Errors: ``ToolExecutionFailure``."""
        for entry in turn.entries:
            call, result = entry.call, entry.result
            if call is not None and call.bug is not None and call.invoker.policy.on_error == "abort":
                raise ToolExecutionFailure(entry.tool, reason(call.bug)) from call.bug
            if result is not None and result.error is not None and result.error.category == "fatal":
                raise ToolExecutionFailure(entry.tool, result.error.message)
        if finish != "invocations":
            return finish
        if not turn.entries:
            # The provider's own tools paused: it is asked again with its contents. Without new contents it would only
            # repeat itself.
            return finish if contents else "stop"
        for entry in turn.entries:
            if entry.accomplished and entry.call is not None:
                self.conversation = self.conversation.replace(submission=entry.call.invocation)
                return "terminal"
        if self.conversation.open:
            return "open"
        return "limit" if self._budget.exhausted is not None else finish


def _waits(entry: ScheduledCall) -> Waiting | None:
    if entry.why is None:
        return None
    return _waiting(entry.invocation.identifier, entry.tool, entry.why, entry.deferred)


def _waiting(identifier: str, tool: str, why: Why, deferred: Deferred | None) -> Waiting:
    return Waiting(
        invocation=identifier,
        why=why,
        tool=tool,
        request=frozendict() if deferred is None else freeze(deferred.request.mapping()),
        binding=frozendict() if deferred is None else freeze(dataclasses.asdict(deferred.binding)),
    )
