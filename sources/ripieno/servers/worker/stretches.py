"""Stretches: a submitted conversation is claimed, restored, and conducted until its end, a question or a limit."""

import asyncio
import contextlib
import dataclasses
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Protocol

from ripieno.approvals import DeferredConfirmer
from ripieno.assembly import Assembly
from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Conversation,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from ripieno.canisters.contents import text_of
from ripieno.canisters.events import ConductEnded, Event, ExecutionBegan, InvocationSealed, ResultReady, TurnBegan
from ripieno.conducting import Run
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import Resumable, resumable
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, Superseded
from ripieno.execution import Circumstances
from ripieno.jsonvalues import EMPTY, thaw
from ripieno.models import Model
from ripieno.schemas import Schema
from ripieno.servers.chat.live_turn import LiveTurn
from ripieno.servers.http.errors import refusal_of
from ripieno.servers.worker.allowed_calls import AllowedCalls
from ripieno.servers.worker.event_writer import EventWriter
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import CLIENT, Ending, Submission
from ripieno.storage.dispatch.events import EventLog, Logged, RunFailed, StretchBegan
from ripieno.storage.journal import Journal
from ripieno.storage.journal.lines import Line
from ripieno.storage.records import Record, Stage, cut_record

#: Seconds between attempts to claim a conversation that another process conducts.
_ATTEMPTS = 0.5


@dataclasses.dataclass(slots=True)
class _Watched:
    """The last event of a run, kept back until the conversation is free, and the turn under way."""

    run: Run
    take: Callable[[Logged], None]
    ended: ConductEnded | None = None
    turn: LiveTurn = dataclasses.field(default_factory=LiveTurn)
    whole: int = 0

    def __call__(self, event: Event) -> None:
        """Takes the next event of the run."""
        if isinstance(event, TurnBegan):
            self.whole = len(self.run.conversation.canisters)
        self.turn.take(event)
        if isinstance(event, ConductEnded):
            self.ended = event
        else:
            self.take(event)

    def cut(self) -> list[dict[str, Any]]:
        """The texts of an answer that was cut off, and is not in the conversation."""
        return [] if len(self.run.conversation.canisters) > self.whole else self.turn.texts()


class Responses(Protocol):
    """Answers background responses of a gateway."""

    async def conduct(self, submission: Submission) -> Ending: ...
    def stop(self, submission: Submission, *, ending: bool) -> None: ...


class Stretches:
    """The stretches of one worker over its assembly, which records in ``journal``."""

    def __init__(
        self,
        assembly: Assembly,
        journal: Journal,
        model_of: Callable[[str], str | Model | None],
        responses: Responses | None = None,
    ) -> None:
        self._assembly = assembly
        self._responses = responses
        #: The responses under way, by the identifiers of their submissions.
        self._answering: dict[str, Submission] = {}
        self._model_of = model_of
        self._journal = journal
        self._paused = PausedStore(journal.database)
        self._events = EventLog(journal.database, journal.redactor.value)
        self.allowed = AllowedCalls(assembly, journal)
        #: The submissions that run or wait for their claim, with their runs.
        self._running: dict[str, Run | None] = {}
        #: Held by the stretch of a conversation. If it is dispatched again while this worker still conducts it, whose
        #: lease had ended, the second one waits for the end of the first.
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()
        #: The submissions that were cancelled, by a person or the end of the worker.
        self._stopped: set[str] = set()
        self._leaving = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> tuple[str, ...]:
        """The identifiers of the submissions under way."""
        return tuple(self._running)

    async def conduct(self, submission: Submission) -> Ending | None:
        """One stretch. It raises nothing; None if the worker ends before the stretch did, or the database is away."""
        async with self._turns.setdefault((submission.owner, submission.conversation), asyncio.Lock()):
            return await self._conduct(submission)

    async def _conduct(self, submission: Submission) -> Ending | None:
        if self._leaving:
            return None
        identifier = submission.identifier
        self._running[identifier] = None
        self._idle.clear()
        try:
            if submission.response:
                return await self._answer(submission)
            async with self._claimed(submission) as held:
                ending, ended = await self._continue(submission) if held else (self._cancelled(), None)
            if ending is not None and ended is not None:
                # Who reads it may answer questions: the conversation must be free then. The queue says it, too.
                with contextlib.suppress(InputError):
                    await run_in_thread(self._events.add, submission, ended, name="events")
            return ending
        except Disconnected:
            # What was done is in the journal, and the next stretch goes on from there.
            return None
        except Superseded as error:
            # If another worker has the submission, this end is not written.
            return Ending(finish="error", reason=str(error))
        except Exception as error:  # A workflow that raises ends in ways that its engine decides.
            return Ending(finish="error", reason=refusal_of(error).message)
        finally:
            del self._running[identifier]
            self._answering.pop(identifier, None)
            self._stopped.discard(identifier)
            if not self._running:
                self._idle.set()

    def stop(self, identifier: str) -> None:
        """Stops a stretch. Each call that was started still gets its result."""
        if identifier in self._running:
            self._stopped.add(identifier)
            self._cancel(identifier)

    def _cancel(self, identifier: str) -> None:
        run = self._running.get(identifier)
        if run is not None:
            run.cancel()
        elif self._responses is not None and identifier in self._answering:
            self._responses.stop(self._answering[identifier], ending=self._leaving)

    async def leave(self, grace: float) -> None:
        """Begins no further stretch, and waits for those under way; stops them after ``grace`` seconds."""
        self._leaving = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._idle.wait()
        for identifier in self.running:
            self.stop(identifier)
        await self._idle.wait()

    async def _answer(self, submission: Submission) -> Ending:
        assert self._responses is not None  # Others do not look into its queue.
        self._answering[submission.identifier] = submission
        return await self._responses.conduct(submission)

    def _cancelled(self) -> Ending | None:
        return None if self._leaving else Ending(finish="cancelled")

    @contextlib.asynccontextmanager
    async def _claimed(self, submission: Submission) -> AsyncGenerator[bool, None]:
        """Claims the conversation, when no other process conducts it. Yields false if it is stopped before."""
        loop = asyncio.get_running_loop()

        def lost() -> None:
            # The next record would end the run with ``Superseded``: it need not wait for the model until then.
            loop.call_soon_threadsafe(self._cancel, submission.identifier)

        while submission.identifier not in self._stopped:
            claim = self._journal.database.claimed(submission.owner, submission.conversation, lost)
            if await run_in_thread(claim.__enter__, name="claim", patient=True):
                try:
                    yield True
                finally:
                    await asyncio.shield(run_in_thread(claim.__exit__, None, None, None, name="claim"))
                return
            await run_in_thread(claim.__exit__, None, None, None, name="claim")
            await asyncio.sleep(_ATTEMPTS)
        yield False

    async def _continue(self, submission: Submission) -> tuple[Ending | None, ConductEnded | None]:
        """The end of the stretch, and the event that is still to be written."""
        await self._write_again(submission)
        ending, restored, paused = await run_in_thread(self._restore, submission, name="restore")
        if ending is not None:
            return ending, None
        run = self._begin(submission, restored, paused)
        self._running[submission.identifier] = run
        if submission.identifier in self._stopped:
            return self._cancelled(), None
        run.carry_out(submission.identifier)
        kept, canisters = run.conversation.kept_by(self._journal), run.conversation.canisters
        missed = await self._missed(submission, canisters, kept)
        await self.allowed.begin(submission)
        async with EventWriter(self._events, submission, self._journal.redactor) as writer:
            writer.take(StretchBegan(kept=kept, canisters=canisters[kept:]))
            for result in missed:
                writer.take(result)
            watched = _Watched(run, writer.take)
            run.watch(watched)
            reason, stored = "", False
            try:
                await run
            except Superseded:
                raise
            except Exception as error:
                refusal = refusal_of(error)
                reason = refusal.message
                writer.take(RunFailed(code=refusal.code or "failed", message=reason))
            finally:
                self.allowed.end(submission)
                if not run.unrecorded:
                    with contextlib.suppress(InputError):
                        await run_in_thread(self._keep, submission, run, watched.cut(), name="keep")
                        stored = True
        if not stored:
            # It is tried again, from what the journal has.
            return None, None
        if self._is_given_back(run):
            return None, None
        finish = run.conversation.finish or "error"
        return Ending(finish="error" if reason else finish, reason=reason), watched.ended

    async def _write_again(self, submission: Submission) -> None:
        """Records results that this worker could not record before, unless another one has gone on without them."""
        owner, name = submission.owner, submission.conversation
        reporter = self._assembly.execution.reporter
        if unwritten := reporter.unwritten(owner, name):
            states = await run_in_thread(lambda: self._journal.state_of(name, owner=owner), name="states")
            lacking = {(one.turn, one.identifier) for one in states if one.status != "finished"}
            if all(one.invocation and (one.turn, one.invocation.identifier) in lacking for one in unwritten):
                await reporter.recorded((), Circumstances(owner=owner, conversation=name))

    async def _missed(self, submission: Submission, canisters: Sequence[Canister], kept: int) -> list[ResultReady]:
        """The results that a dead worker has not shown, with those of calls that it did not end.

        ``canisters`` after the first ``kept`` are new.
        """
        first = next((place for place, one in reversed([*enumerate(canisters)]) if not _is_result(one)), -1) + 1
        if first == len(canisters):
            return []
        shown = await run_in_thread(self._events.calls, submission, name="events")
        calls = {one.identifier: one for one in canisters[:first] if isinstance(one, InvocationCanister)}
        missed: list[ResultReady] = []
        for place, one in enumerate(canisters[first:], first):
            assert isinstance(one, ResultCanister)
            call, last = calls.get(one.invocation_id), shown.get(one.invocation_id)
            lost = place >= kept and one.error is not None
            if call is not None and (lost or isinstance(last, InvocationSealed | ExecutionBegan)):
                tool = call.name if last is None or isinstance(last, InvocationSealed) else last.tool
                missed.append(ResultReady(invocation=call, result=one, tool=tool))
        return missed

    def _restore(self, submission: Submission) -> tuple[Ending | None, Resumable, Paused | None]:
        """The conversation to conduct; or the end, if an earlier worker has recorded it."""
        owner, name = submission.owner, submission.conversation
        began = ended = None
        paused = self._paused.load(name, owner=owner)
        restored = Resumable(conversation=Conversation(identifier=name))
        if paused is not None or self._journal.has(name, owner=owner):
            began, ended = self._marked(submission, "began"), self._marked(submission, "ended")
            restored = resumable(self._journal, name, paused, owner=owner)
        conversation = restored.conversation
        finish = "" if ended is None else str(_details(ended).get("finish", ""))
        # A question that was not kept is asked again.
        if ended is not None and not (finish == "open" and paused is None and conversation.open):
            return Ending(finish=finish), restored, paused
        if began is not None and not conversation.open and (answered := self._answered(submission, began)) is not None:
            return self._end(submission, answered), restored, paused
        last = conversation.canisters[-1] if conversation.canisters else None
        if not submission.canisters and isinstance(last, AssistantCanister):
            # Another program has continued it meanwhile, to its end: the model is not asked once more.
            return Ending(finish=conversation.finish or "stop"), restored, paused
        if submission.canisters and began is None:
            if conversation.open:
                conversation = conversation.decline_open(_words(submission) or "The user sent something else instead.")
            conversation = conversation.say(submission.canisters)
            restored = Resumable(conversation=conversation)
        return None, restored, paused

    def _marked(self, submission: Submission, stage: Stage) -> Line | None:
        """The first line of a stage that names the submission."""
        lines = self._journal.lines(submission.conversation, owner=submission.owner, stage=stage)
        return next((one for one in lines if _details(one).get("submitted") == submission.identifier), None)

    def _answered(self, submission: Submission, began: Line) -> Line | None:
        """The last answer of a run, if nothing was left to do after it: its worker ended before it recorded the end."""
        *_, last = self._journal.lines(submission.conversation, owner=submission.owner)
        answered = last.stage == "turned" and last.number > began.number
        return last if answered and _details(last).get("finish") != "invocations" else None

    def _end(self, submission: Submission, answered: Line) -> Ending:
        """Records the end of a run whose last answer is recorded."""
        finish = str(_details(answered).get("finish", ""))
        details = {"finish": finish, "submitted": submission.identifier}
        self._journal.record(
            [
                Record(
                    stage="ended",
                    conversation=submission.conversation,
                    turn=answered.turn,
                    owner=submission.owner,
                    details=details,
                )
            ]
        )
        return Ending(finish=finish)

    def _begin(self, submission: Submission, restored: Resumable, paused: Paused | None) -> Run:
        model = submission.model or (paused.model if paused else "")
        agent = submission.agent or (paused.agent if paused else "")
        tools = submission.tools if submission.tools is not None or paused is None else paused.tools
        ensembles = None
        if submission.client_tools:
            ensembles = (*self._assembly.ensembles, _client_ensemble(submission))
            if tools is None and agent:
                tools = self._assembly.access_agent(agent).tools
            tools = None if tools is None else (*tools, f"{CLIENT}.*")
        return self._assembly.conduct(
            restored.conversation,
            model=self._model_of(model) if model else None,
            agent=agent or None,
            ensembles=ensembles,
            tools=tools,
            owner=submission.owner,
            confirmer=DeferredConfirmer(),
            auxdata=submission.owner or None,
            answers=restored.answers,
            workspace=submission.workspace or None,
        )

    def _is_given_back(self, run: Run) -> bool:
        """Whether the end of the worker has ended a run: another worker continues it."""
        return self._leaving and run.conversation.finish == "cancelled"

    def _keep(self, submission: Submission, run: Run, cut: Sequence[Mapping[str, Any]]) -> None:
        """Keeps a conversation that waits, and forgets any other; and the texts of an answer that was cut off."""
        conversation = run.conversation
        if cut:
            self._journal.record([cut_record(submission.owner, conversation.identifier, cut)])
        if self._is_given_back(run):
            # The next worker goes on, with the answers that there were.
            return
        if not conversation.open:
            self._paused.forget(conversation.identifier, owner=submission.owner)
            return
        self._paused.save(
            Paused(
                conversation=conversation,
                workspace=submission.workspace or str(self._assembly.surroundings.workspace),
                model=run.model.identity,
                agent=submission.agent,
                tools=submission.tools,
                owner=submission.owner,
                submission=submission,
            )
        )


def _is_result(canister: Canister) -> bool:
    return isinstance(canister, ResultCanister)


def _words(submission: Submission) -> str:
    """The text of the message of a submission."""
    return "\n".join(text_of(one.content) for one in submission.canisters if isinstance(one, UserCanister))


def _client_ensemble(submission: Submission) -> Ensemble:
    tools = (
        Definition(name=one.name, description=one.description, schema=Schema.of(thaw(one.arguments)))
        for one in submission.client_tools
    )
    return Ensemble.of_request(tools, name=CLIENT)


def _details(line: Line) -> Mapping[str, Any]:
    return EMPTY if line.record is None else line.record.details
