"""Requests with tools that run here: a run over the client's conversation, merged into one response.

Only conversations that wait for a person are saved between requests (``paused_store``), and requests share nothing:
each has its own conversation, so that tool state ends with the answer. A client's history causes no calls.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping

from ripieno.approvals import Given
from ripieno.assembly import Assembly
from ripieno.canisters import AssistantCanister, Conversation, InvocationCanister
from ripieno.canisters.controls import Limits
from ripieno.canisters.events import Batches, ConductEnded, Event
from ripieno.conducting import Run
from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import InputError
from ripieno.models import Model
from ripieno.models.protocol import Asked
from ripieno.servers.gateway import history_checks
from ripieno.servers.gateway.one_answer import ResponseMerger
from ripieno.servers.gateway.paused_run import PausedRun, RunRequest, conversation_of, denials, finish_of
from ripieno.servers.gateway.paused_store import Deferral, Resumption, resumption_of
from ripieno.servers.gateway.signatures import Signer, signatures_in
from ripieno.servers.gateway.stored.requests import StoredRequest
from ripieno.servers.gateway.tools import Hosting, Offering
from ripieno.values import Value

#: The maximum number of seconds between the limits of a run and its request, so that the answer ends regularly.
_MARGIN = 5.0


class HostedRuns:
    """The runs of a gateway's requests. ``secret`` signs results, and is the same in all workers.

    Errors: ``NameAbsence`` for ensembles and tools that are not enabled; ``InputError`` for impossible settings.
    """

    def __init__(
        self, assembly: Assembly, descriptor: GatewayDescriptor, warn: Callable[[str], None], secret: bytes
    ) -> None:
        self._assembly = assembly
        self.hosting = Hosting(assembly, descriptor, warn)
        self._signer = Signer(secret)
        self._deferral = Deferral(assembly) if descriptor.absent == "defer" else None
        base = assembly.execution.limits
        turns = base.turns if descriptor.max_turns is None else descriptor.max_turns
        wall = descriptor.seconds - min(_MARGIN, descriptor.seconds / 10)
        self._limits = dataclasses.replace(base, turns=turns, wall=min(base.wall, wall))

    def plan(
        self, asked: Asked, caller: str, stored: StoredRequest | None = None, *, defers: bool = False
    ) -> "Plan | None":
        """The plan to answer a request by a run; None if nothing of it runs here.

        ``stored`` is its part in the store. ``defers``: whether a call may wait for a person, if the settings say so.
        Errors: ``InputError`` for calls without results, for unavailable tools, and for results of ours without a valid
        signature.
        """
        claim: Resumption | None = None
        if stored is None or stored.claim is None:
            history_checks.check(asked.canisters)
        else:
            claim = resumption_of(asked, history_checks.unanswered(asked.canisters), stored.claim, caller)
        offering = self.hosting.offer(asked)
        if offering is None:
            if claim is not None:
                raise InputError("A call waits, but this request has none of its tools. Send the same tools again.")
            return None
        self._signer.check(asked.canisters, offering.ours, signatures_in(asked.native), caller)
        if claim is not None:
            offering = dataclasses.replace(offering, controls=offering.controls.relaxed())
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
            deferral=self._deferral if defers else None,
            claim=claim,
            stored=stored,
        )


class Plan(Value, kw_only=True):
    """The run that answers one request, for one caller, which tools receive as ``auxdata``.

    ``deferral`` is set if calls may wait for a person, and ``claim`` if one has waited.
    """

    assembly: Assembly
    asked: Asked
    caller: str
    offering: Offering
    signer: Signer
    limits: Limits
    deferral: Deferral | None = None
    claim: Resumption | None = None
    stored: StoredRequest | None = None

    async def respond(self, model: Model, *, wire: str | None, hear: Callable[[Event], None] | None = None) -> Batches:
        """The events of the run as those of one response.

        ``wire`` is that of the response if it shows calls and results that run here. ``hear`` receives every event of
        the run. Closing it cancels the run and its tools. Errors: ``ProviderFailure``, ``InputError``,
        ``ToolExecutionFailure``.
        """
        merger = ResponseMerger(
            model=self.asked.model,
            theirs=self.offering.theirs,
            controls=self.offering.controls,
            sign=lambda call, result: self.signer.sign(call, result, self.caller),
            shows=wire is not None,
        )
        if self.deferral is not None:
            request = RunRequest(
                begin=lambda conversation, answers: self._begin(model, conversation, self.limits, answers),
                canisters=self.asked.canisters,
                offering=self.offering,
                model=model.identity,
                caller=self.caller,
                wire=wire,
                hear=hear,
                stored=self.stored,
            )
            paused = PausedRun(self.deferral, merger, request, self.claim)
            async with contextlib.aclosing(paused.respond()) as batches:
                async for batch in batches:
                    yield batch
            return
        conversation, limits = conversation_of(self.asked.canisters, self.stored), self.limits
        while True:
            run = self._begin(model, conversation, limits)
            turns = calls = 0
            async with run:
                async for event in run:
                    if hear is not None:
                        hear(event)
                    if isinstance(event, ConductEnded):
                        turns, calls = event.turns, event.calls
                    events = merger.merge(event)
                    if events:
                        yield events
            conversation = run.conversation
            denied = denials(conversation)
            if not denied:
                break
            yield merger.deny(denied)
            conversation = conversation.say(denied)
            if conversation.open:
                break
            limits = dataclasses.replace(limits, turns=limits.turns - turns, calls=max(0, limits.calls - calls))
        yield merger.end(finish_of(conversation), conversation.usage)

    def _begin(
        self, model: Model, conversation: Conversation, limits: Limits, answers: Mapping[str, Given] | None = None
    ) -> Run:
        self._leave_out_history(conversation)
        offering = self.offering
        # A forced choice is for the first turn of the answer, not for a run that goes on after denials.
        first = len(conversation.canisters) == len(self.asked.canisters)
        controls = offering.controls if first else offering.controls.relaxed()
        return self.assembly.conduct(
            conversation,
            model=model,
            ensembles=offering.ensembles,
            tools=offering.tools,
            # The limit of calls is applied here, not by the model's provider.
            controls=dataclasses.replace(controls, tool_calls=None),
            limits=limits,
            owner=self.caller,
            auxdata=self.caller,
            answers=answers,
        )

    def _leave_out_history(self, conversation: Conversation) -> None:
        """Lets the journal record what this request adds, not the history that its client sends each time."""
        recorder = self.assembly.execution.reporter.recorder
        if recorder is None or conversation.kept_by(recorder):
            return
        canisters = conversation.canisters
        spoken = (at for at, one in enumerate(canisters, 1) if isinstance(one, AssistantCanister | InvocationCanister))
        known = max(spoken, default=0) if self.claim is None else len(canisters)
        conversation.note_kept(recorder, canisters[:known])
