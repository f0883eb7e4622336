"""Requests some of whose tools run here: a run over the client's conversation, told as one answer.

Nothing is kept between requests but what waits for a person (``deferring``), and nothing is shared by them: each has a
conversation of its own, so that what tools keep for it goes with its answer. What stands in a client's history is read
by the model, and causes nothing here.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ripieno.approvals import Given
from ripieno.assembly import Assembly
from ripieno.canisters import Controls, Conversation, ResultCanister
from ripieno.canisters.controls import Finish, Limits
from ripieno.canisters.events import Batches, ConductEnded, Event
from ripieno.canisters.faults import Fault
from ripieno.conducting import Run
from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import InputError
from ripieno.models import Model
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import history_checks
from ripieno.servers.gateway.one_answer import Telling
from ripieno.servers.gateway.paused_run import Part, PausedRun
from ripieno.servers.gateway.paused_store import Deferral, ResumeToken, once
from ripieno.servers.gateway.signatures import Signer, signatures_in
from ripieno.servers.gateway.tools import Hosting, Offering

_UNANSWERED = Fault(
    category="denied",
    message="Nobody can say now whether this call may run, and here it cannot wait.",
    recoverable=False,
)
#: Seconds, at most, that a run ends before its request must: its answer ends as one then, and not as a failure.
_MARGIN = 5.0
#: How a run's end is told where a client has another word for it.
_FINISHES: dict[Finish, Finish] = {"terminal": "stop"}


class HostedRuns:
    """What runs here, for every request of a gateway. ``secret`` signs results; all workers have the same.

    Errors: ``NameAbsence`` for ensembles and tools that do not play; ``InputError`` for what is not possible here.
    """

    def __init__(
        self, assembly: Assembly, descriptor: GatewayDescriptor, warn: Callable[[str], None], secret: bytes
    ) -> None:
        self._assembly = assembly
        self._hosting = Hosting(assembly, descriptor, warn)
        self._signer = Signer(secret)
        self._deferral = Deferral(assembly, self._signer) if descriptor.absent == "defer" else None
        base = assembly.execution.limits
        turns = base.turns if descriptor.max_turns is None else descriptor.max_turns
        wall = descriptor.seconds - min(_MARGIN, descriptor.seconds / 10)
        self._limits = dataclasses.replace(base, turns=turns, wall=min(base.wall, wall))

    def settle(self, controls: Controls) -> Controls:
        """The controls, in which hosted tools have the names of what they are bound to. Errors: ``RequestInvalidity``.

        A plan has done that; this is for a request without one, whose hosted tools are left out.
        """
        return self._hosting.settle(controls)

    def pair(self, asked: Asked, caller: str) -> tuple[Asked, ResumeToken | None]:
        """The request, whose calls and results belong together, and what it goes on with where a call of it waits.

        Errors: ``InputError``, which names the call.
        """
        if self._deferral is None:
            history_checks.check(asked.canisters)
            return asked, None
        asked = once(asked)
        unanswered = history_checks.unanswered(asked.canisters)
        return asked, self._deferral.find(asked, unanswered, caller) if unanswered else None

    def plan(self, asked: Asked, caller: str, claim: ResumeToken | None = None) -> "Plan | None":
        """How a request is answered by a run; None when nothing of it runs here. ``claim`` is what it goes on with.

        Errors: ``InputError`` for tools that it cannot have, and for results of ours that are none.
        """
        offering = self._hosting.offer(asked)
        if offering is None:
            if claim is not None:
                raise InputError("A call waits, and nothing of this request runs here: send its tools again.")
            return None
        self._signer.check(asked.canisters, offering.ours, signatures_in(asked.native), caller)
        limits, calls = self._limits, offering.controls.tool_calls
        if calls is not None:
            limits = dataclasses.replace(limits, calls=min(calls, limits.calls))
        return Plan(
            assembly=self._assembly,
            asked=asked,
            caller=caller,
            offering=offering,
            signer=self._signer,
            limits=limits,
            deferral=self._deferral,
            claim=claim,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one request is answered by a run, for one caller, whom tools know as their ``auxdata``.

    ``deferral`` is there where calls may wait for a person, and ``claim`` where one has waited.
    """

    assembly: Assembly
    asked: Asked
    caller: str
    offering: Offering
    signer: Signer
    limits: Limits
    deferral: Deferral | None = None
    claim: ResumeToken | None = None

    async def play(self, model: Model, *, wire: str | None, hear: Callable[[Event], None] | None = None) -> Batches:
        """The events of the whole run as those of one answer.

        ``wire`` names that of the answer where it tells calls that run here, and results; None: they are not told.
        ``hear`` is told every event of the run itself.
        Closing it cancels the run, and every tool of it. Errors: ``ProviderFailure``, ``InputError``,
        ``ToolExecutionFailure``.
        """
        limits = self.limits
        telling = Telling(
            model=self.asked.model,
            theirs=self.offering.theirs,
            controls=self.offering.controls,
            sign=lambda call, result: self.signer.sign(call, result, self.caller),
            shows=wire is not None,
        )
        if self.deferral is not None:
            patience = self._patience(self.deferral, telling, model, wire=wire, hear=hear)
            async with contextlib.aclosing(patience.play()) as batches:
                async for batch in batches:
                    yield batch
            return
        conversation = Conversation(canisters=self.asked.canisters)
        while True:
            run = self._begin(model, conversation, limits)
            turns = calls = 0
            async with run:
                async for event in run:
                    if hear is not None:
                        hear(event)
                    if isinstance(event, ConductEnded):
                        turns, calls = event.turns, event.calls
                    told = telling.tell(event)
                    if told:
                        yield told
            conversation = run.conversation
            denied = _denied(conversation)
            if not denied:
                break
            yield telling.deny(denied)
            conversation = conversation.say(denied)
            if conversation.open:
                break
            limits = dataclasses.replace(limits, turns=limits.turns - turns, calls=max(0, limits.calls - calls))
        yield telling.end(_finish(conversation), conversation.usage)

    def _patience(
        self,
        deferral: Deferral,
        telling: Telling,
        model: Model,
        *,
        wire: str | None,
        hear: Callable[[Event], None] | None,
    ) -> PausedRun:
        offering = self.offering
        part = Part(
            begin=lambda conversation, answers: self._begin(model, conversation, self.limits, answers),
            canisters=self.asked.canisters,
            ours=offering.ours,
            theirs=offering.theirs,
            tools=offering.patterns,
            model=model.identity,
            caller=self.caller,
            wire=wire,
            hear=hear,
            deny=_denied,
            finish_of=_finish,
        )
        return PausedRun(deferral, telling, part, self.claim)

    def _begin(
        self, model: Model, conversation: Conversation, limits: Limits, answers: Mapping[str, Given] | None = None
    ) -> Run:
        offering = self.offering
        controls = offering.controls if self.claim is None else offering.controls.relaxed()
        return self.assembly.conduct(
            conversation,
            model=model,
            ensembles=offering.ensembles,
            tools=offering.tools,
            # How many calls may run is no business of the model's provider: they run here.
            controls=dataclasses.replace(controls, tool_calls=None),
            limits=limits,
            auxdata=self.caller,
            answers=answers,
        )


def _denied(conversation: Conversation) -> Sequence[ResultCanister]:
    """Results for the calls that wait for a person, whom nobody would wait for here."""
    waiting = (one for one in conversation.waiting if one.why != "caller")
    return [ResultCanister(invocation_id=one.invocation, error=_UNANSWERED) for one in waiting]


def _finish(conversation: Conversation) -> Finish:
    if conversation.open:
        return "open"
    finish = conversation.finish or "error"
    return _FINISHES.get(finish, finish)
