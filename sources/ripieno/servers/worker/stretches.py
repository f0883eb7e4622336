"""Stretches: a submitted conversation is claimed, restored, and conducted until its end, a question or a limit."""

import asyncio
import collections
import contextlib
import dataclasses
import logging
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Protocol

from ripieno.approvals import DeferredConfirmer
from ripieno.assembly import Assembly
from ripieno.assembly.continuations import reopen_failed
from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.events import ConductEnded, ExecutionBegan, InvocationSealed, ResultReady
from ripieno.conducting import Run
from ripieno.conducting.observers.logs import FIELDS
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import Conflict, InputError, NameAbsence, Superseded
from ripieno.execution import Circumstances
from ripieno.jsonvalues import thaw
from ripieno.models import Model
from ripieno.schemas import Schema
from ripieno.servers.http.errors import refusal_of
from ripieno.servers.worker.allowed_calls import AllowedCalls
from ripieno.servers.worker.event_writer import EventWriter
from ripieno.servers.worker.restoration import Restored, Restorer
from ripieno.servers.worker.watched_run import WatchedRun
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.dispatch.contract import CLIENT, Dispatcher, Ending, Submission
from ripieno.storage.dispatch.events import EventLog, RunFailed, StretchBegan
from ripieno.storage.journal import Journal
from ripieno.storage.records import cut_record

_logger = logging.getLogger(__name__)
#: Seconds between attempts to claim a conversation that another process conducts.
_ATTEMPTS = 0.5


@dataclasses.dataclass(slots=True)
class _Claim:
    """The claim of a conversation; and the last event of its run, to be written after ``last``, once it is free.

    ``lost`` says that another process has taken it.
    """

    held: contextlib.AbstractContextManager[bool]
    lost: bool = False
    ended: ConductEnded | None = None
    last: int = 0


class Responses(Protocol):
    """Answers background responses of a gateway."""

    async def conduct(self, submission: Submission, *, cancelled: bool) -> Ending | None: ...
    def end_lost(self, dispatcher: Dispatcher) -> Sequence[str]: ...
    def stop(self, submission: Submission, *, ending: bool) -> None: ...


class Stretches:
    """The stretches of one worker over its assembly, which records in ``journal``.

    ``is_known`` says whether the queue still has a submission; it blocks.
    """

    def __init__(
        self,
        assembly: Assembly,
        journal: Journal,
        model_of: Callable[[str], str | Model | None],
        responses: Responses | None = None,
        *,
        worker: str = "",
        is_known: Callable[[Submission], bool] = lambda _: True,
    ) -> None:
        self._assembly = assembly
        self._worker = worker
        self._responses = responses
        #: The responses under way, by the identifiers of their submissions.
        self._answering: dict[str, Submission] = {}
        self._model_of = model_of
        self._journal = journal
        self._paused = PausedStore(journal.database)
        self._events = EventLog(journal.database, journal.redactor.value)
        self.allowed = AllowedCalls(assembly, journal)
        self._restorer = Restorer(journal, self._paused, self._events, self.allowed)
        self._is_known = is_known
        #: The submissions that run, or wait for their conversation, and how often: see ``_turns``.
        self._inside: collections.Counter[str] = collections.Counter()
        #: The runs that have begun.
        self._runs: dict[str, Run] = {}
        #: Held by the stretch of a conversation: another one, of another queue, waits for its end. So does its own if
        #: it is dispatched again while this worker still conducts it, whose lease had ended.
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()
        #: The submissions that were cancelled, by a person or the end of the worker.
        self._stopped: set[str] = set()
        self._leaving = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> tuple[str, ...]:
        """The identifiers of the submissions under way, also of those that wait for another of their conversation."""
        return tuple(self._inside)

    async def conduct(self, submission: Submission, *, cancelled: bool = False) -> Ending | None:
        """One stretch. It raises nothing; None if the worker ends before it, the database is away, or it was deleted.

        ``cancelled``: it was, before it began.
        """
        identifier = submission.identifier
        token = FIELDS.set({**FIELDS.get(), "run": identifier, "conversation": submission.conversation})
        self._inside[identifier] += 1
        self._idle.clear()
        if cancelled:
            self._stopped.add(identifier)
        try:
            async with self._turns.setdefault((submission.owner, submission.conversation), asyncio.Lock()):
                return await self._conduct(submission)
        finally:
            self._inside -= collections.Counter((identifier,))
            if identifier not in self._inside:
                self._stopped.discard(identifier)
            if not self._inside:
                self._idle.set()
            FIELDS.reset(token)

    async def _conduct(self, submission: Submission) -> Ending | None:
        if self._leaving:
            return None
        identifier = submission.identifier
        try:
            if submission.response:
                return await self._answer(submission)
            async with self._claimed(submission) as claim:
                if claim is None or identifier in self._stopped:
                    ending = self._cancelled()
                else:
                    ending = await self._continue(submission, claim)
            if ending is not None and ending.finish == "cancelled":
                with contextlib.suppress(Conflict, NameAbsence):  # Another program continues it.
                    await run_in_thread(reopen_failed, self._journal, submission, name="reopen")
            return ending
        except (Disconnected, Superseded) as error:
            _logger.warning("The run stops here: %s", error)
            # What was done is in the journal, and the next stretch goes on from there: of this worker, if it has the
            # submission still, or has it again.
            return None
        except Exception as error:  # A workflow that raises ends in ways that its engine decides.
            with contextlib.suppress(InputError):  # The next answer does it.
                await run_in_thread(reopen_failed, self._journal, submission, name="reopen")
            reason = refusal_of(error).message
            if isinstance(error, InputError):  # All others are logged there.
                _logger.warning("The run failed: %s", reason)
            return Ending(finish="error", reason=reason)
        finally:
            self._runs.pop(identifier, None)
            self._answering.pop(identifier, None)

    def stop(self, identifier: str) -> None:
        """Stops a stretch. Each call that was started still gets its result."""
        if identifier in self._inside:
            self._stopped.add(identifier)
            self._cancel(identifier)

    def _cancel(self, identifier: str) -> None:
        run = self._runs.get(identifier)
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

    async def _answer(self, submission: Submission) -> Ending | None:
        assert self._responses is not None  # Others do not look into its queue.
        self._answering[submission.identifier] = submission
        return await self._responses.conduct(submission, cancelled=submission.identifier in self._stopped)

    def _cancelled(self) -> Ending | None:
        return None if self._leaving else Ending(finish="cancelled")

    @contextlib.asynccontextmanager
    async def _claimed(self, submission: Submission) -> AsyncGenerator[_Claim | None, None]:
        """Claims the conversation, when no other process conducts it. Yields None if it is stopped before.

        One that continues with answers is claimed although it is cancelled: its calls wait again.
        """
        loop, name = asyncio.get_running_loop(), submission.identifier

        def lost() -> None:
            claim.lost = True
            # The next record would end the run with ``Superseded``: it need not wait for the model until then.
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(self._cancel, name)

        while name not in self._stopped or (submission.continues and not self._leaving):
            claim = _Claim(self._journal.database.claimed(submission.owner, submission.conversation, lost))
            if await run_in_thread(claim.held.__enter__, name="claim"):
                try:
                    yield claim
                finally:
                    await asyncio.shield(run_in_thread(self._free, submission, claim, name="claim"))
                return
            await run_in_thread(self._free, submission, claim, name="claim")
            await asyncio.sleep(_ATTEMPTS)
        yield None

    def _free(self, submission: Submission, claim: _Claim) -> None:
        claim.held.__exit__(None, None, None)
        if claim.ended is not None:
            # Who reads it may answer questions: the conversation must be free then. The queue says it, too.
            with contextlib.suppress(InputError):
                self._events.add(submission, claim.ended, after=claim.last)

    async def _continue(self, submission: Submission, claim: _Claim) -> Ending | None:
        """The end of the stretch."""
        if not await run_in_thread(self._is_known, submission, name="restore"):
            # A deletion had the conversation before this worker claimed it, and took the run from the queue.
            return None
        await self._write_again(submission)
        found = await run_in_thread(self._restorer.restore, submission, name="restore")
        if not isinstance(found, Restored):
            return found
        if found.begun:
            _logger.info("The run goes on where another worker has left it.")
        try:
            run = self._begin(submission, found)
        except NameAbsence as error:
            raise InputError(f"{error} (in the configuration of the worker {self._worker})") from error
        self._runs[submission.identifier] = run
        if submission.identifier in self._stopped:
            return self._cancelled()
        run.carry_out(submission.identifier)
        kept, canisters = run.conversation.kept_by(self._journal), run.conversation.canisters
        missed = await self._missed(submission, canisters, kept)
        self.allowed.begin(submission, found.allowances)
        async with EventWriter(self._events, submission, self._journal.redactor, after=found.last_event) as writer:
            writer.take(StretchBegan(kept=kept, canisters=canisters[kept:], worker=self._worker))
            for result in missed:
                writer.take(result)
            watched = WatchedRun(run, writer.take)
            run.watch(watched)
            reason, stored, away = "", False, False
            try:
                await run
            except Superseded:
                raise
            except Disconnected:
                # Before its beginning was recorded. Its answers stay, and it is tried again.
                away = True
            except Exception as error:
                refusal = refusal_of(error)
                reason = refusal.message
                writer.take(RunFailed(code=refusal.code or "failed", message=reason))
            finally:
                self.allowed.end(submission)
                if not (run.unrecorded or away):
                    with contextlib.suppress(InputError):
                        await run_in_thread(self._keep, submission, run, found.paused, watched.cut(), name="keep")
                        stored = True
        # Otherwise it is tried again, from what the journal has.
        if not stored or self._is_given_back(run) or self._is_superseded(submission, claim):
            return None
        claim.ended, claim.last = watched.ended, writer.last
        finish = run.conversation.finish or "error"
        return Ending(finish="error" if reason else finish, reason=reason)

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

    def _begin(self, submission: Submission, restored: Restored) -> Run:
        paused = restored.paused
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
            restored.resumable.conversation,
            model=self._model_of(model) if model else None,
            agent=agent or None,
            ensembles=ensembles,
            tools=tools,
            owner=submission.owner,
            confirmer=DeferredConfirmer(),
            auxdata=submission.owner or None,
            answers=restored.resumable.answers,
            workspace=submission.workspace or None,
        )

    def _is_given_back(self, run: Run) -> bool:
        """Whether the end of the worker has ended a run: another worker continues it."""
        return self._leaving and run.conversation.finish == "cancelled"

    def _is_superseded(self, submission: Submission, claim: _Claim) -> bool:
        """Whether another process has taken the conversation over. How the run has ended here is not its end then."""
        reporter = self._assembly.execution.reporter
        superseded = claim.lost or reporter.superseded(submission.owner, submission.conversation) is not None
        if superseded:
            _logger.warning("Another worker goes on with the run.")
        return superseded

    def _keep(self, submission: Submission, run: Run, paused: Paused | None, cut: Sequence[Mapping[str, Any]]) -> None:
        """Keeps a conversation that waits, and forgets any other; and the texts of an answer that was cut off."""
        conversation = run.conversation
        if cut:
            self._journal.record([cut_record(submission.owner, conversation.identifier, cut)])
        if self._is_given_back(run):
            # The next worker goes on, with the answers that there were.
            return
        if not conversation.open:
            if paused is not None:
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


def _client_ensemble(submission: Submission) -> Ensemble:
    tools = (
        Definition(name=one.name, description=one.description, schema=Schema.of(thaw(one.arguments)))
        for one in submission.client_tools
    )
    return Ensemble.of_request(tools, name=CLIENT)
