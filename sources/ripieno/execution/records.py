"""Writes the records of calls and sends alerts; and the faults of calls that are not run.

Calls that start together are recorded in one commit, before any of them runs. So are calls that end in the same step
of the event loop, before their results are shown. Calls that only read may run again after a crash: their records wait
for the next commit of their conversation, at most ``_LONGEST`` seconds. A recorder that fails loses no result: those
that could not be written are tried again with the next commit of their conversation. What comes while a remote recorder
writes is collected for its next commit.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from frozendict import frozendict

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert
from ripieno.canisters.faults import Fault, Report
from ripieno.ensembles import Invoker, Surroundings
from ripieno.ensembles.owner import reason
from ripieno.exceptions import Superseded
from ripieno.execution.context import Circumstances, Prepared
from ripieno.execution.record_queue import Held, RecordQueue, deliver, write_together
from ripieno.jsonvalues import EMPTY
from ripieno.schemas import SchemaProblem
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.records import Record, Recorder, Stage
from ripieno.values import Value

#: Seconds for which a record may wait for others. Nine commits of a turn with four short calls become two.
_LONGEST = 0.1
#: Conversations whose records wait after a failure. The oldest are dropped: they may have ended.
_MOST = 1_000
_APART = contextlib.nullcontext()
NOT_RUN = Report(attempts=0)
UNRECORDED = Fault(
    category="resource",
    code="not_recorded",
    message="The call was not run: it could not be recorded.",
    recoverable=False,
    suggestion="Tell the user that the journal of calls cannot be written.",
)


def unfit(invoker: Invoker, problems: Sequence[SchemaProblem]) -> Fault:
    """The fault of arguments that do not match their schema."""
    return Fault(
        category="validation",
        message=" ".join(problem.message for problem in problems),
        code=problems[0].code,
        details=frozendict({"parameters": tuple(problem.parameter for problem in problems)}),
        suggestion=f"Fix the arguments of {invoker.exposed!r} and call it again.",
    )


def denied(invoker: Invoker, advice: str) -> Fault:
    """The fault of a call that a rule or a person does not allow; ``advice`` is for the model."""
    return Fault(
        category="denied",
        message=f"The call of {invoker.exposed!r} was denied.",
        recoverable=False,
        suggestion=advice or None,
    )


def record_of(
    stage: Stage,
    scope: Circumstances,
    tool: str,
    invocation: InvocationCanister,
    result: ResultCanister | None = None,
    *,
    details: Mapping[str, Any] = frozendict[str, Any](),
) -> Record:
    """The record of one stage of a call."""
    return Record(
        stage=stage,
        conversation=scope.conversation,
        turn=scope.turn,
        tool=tool,
        owner=scope.owner,
        invocation=invocation,
        result=result,
        details=details,
    )


def start_of(prepared: Prepared, scope: Circumstances) -> Record:
    """The record of a call that starts, with the rule that allowed it. A person's decision is in an earlier record."""
    verdict = prepared.verdict
    details = {"allowed": verdict.reason} if verdict.action == "run" else EMPTY
    return record_of("started", scope, prepared.invoker.identity, prepared.invocation, details=details)


class _Waiting(Value):
    """The records of one conversation that wait for its next commit.

    Those of calls that only read are written by the timer. Without it, there are only those that could not be written.
    """

    records: list[Record]
    scope: Circumstances
    timer: asyncio.TimerHandle | None = None


def _ignore(kept: bool) -> None:
    """For records after which nothing depends on whether they were written."""


def _joined(held: Sequence[Held]) -> Held:
    """The records of one conversation, which are written or fail together."""
    if len(held) == 1:
        return held[0]

    def then(written: bool) -> None:
        for one in held:
            one.then(written)

    return Held(records=[record for one in held for record in one.records], scope=held[0].scope, then=then)


class Reporter:
    """Writes records and sends alerts for one execution."""

    def __init__(self, recorder: Recorder | None, surroundings: Surroundings | None) -> None:
        self.recorder = recorder
        self.surroundings = surroundings
        #: By event loop, since threads may share an execution: calls that start, calls that have ended, what waits by
        #: owner and conversation, and what a remote recorder still has to write.
        self._starting: dict[asyncio.AbstractEventLoop, list[Held]] = {}
        self._ended: dict[asyncio.AbstractEventLoop, list[Held]] = {}
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, str, str], _Waiting] = {}
        self._queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, RecordQueue] = weakref.WeakKeyDictionary()
        #: Why the last write failed, if it did: no call then runs before its start is recorded.
        self._failure: Exception | None = None
        #: The conversations that other processes have taken over, by owner and identifier.
        self._superseded: dict[tuple[str, str], Superseded] = {}

    @property
    def _remote(self) -> bool:
        return getattr(self.recorder, "remote", False)

    def record(self, records: Sequence[Record], scope: Circumstances, then: Callable[[bool], None] = _ignore) -> None:
        """Writes records in one commit, in order after earlier ones. ``then`` gets whether that succeeded.

        It is called at once, or later if the recorder is remote. It must not raise.
        """
        held = self._whole(Held(records=records, scope=scope, then=then))
        if self.recorder is None or not held.records:
            then(True)
        elif self._remote:
            self._queue.add(held)
        else:
            self._write_now((held,))

    def _write_now(self, held: Sequence[Held]) -> None:
        deliver(held, write_together(self._write, held), self._report)

    def _whole(self, held: Held) -> Held:
        """The records, after those of their conversation that wait."""
        waiting = self._take(held.scope.owner, held.scope.conversation)
        return held if waiting is None else dataclasses.replace(held, records=(*waiting.records, *held.records))

    async def recorded(self, records: Sequence[Record], scope: Circumstances) -> bool:
        """Writes records, and returns whether that succeeded."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.record(records, scope, lambda kept: None if done.done() else done.set_result(kept))
        return await done

    def flush(self, owner: str, conversation: str) -> None:
        """Writes the records of a conversation that wait for others, and have not failed before."""
        waiting = self._waiting.get((asyncio.get_running_loop(), owner, conversation))
        if waiting is not None and waiting.timer is not None:
            self.record((), waiting.scope)

    def _wait(self, record: Record, scope: Circumstances) -> None:
        loop, owner, conversation = asyncio.get_running_loop(), scope.owner, scope.conversation
        waiting = self._waiting.get((loop, owner, conversation))
        if waiting is None or waiting.timer is None:
            timer = loop.call_later(_LONGEST, self.flush, owner, conversation)
            earlier = [] if waiting is None else waiting.records
            waiting = self._waiting[loop, owner, conversation] = _Waiting(earlier, scope, timer)
        waiting.records.append(record)

    def keep(self, records: Sequence[Record], scope: Circumstances) -> None:
        """Keeps records of calls for the next commit of their conversation: each with a result, and its start."""
        ended = {id(one.invocation) for one in records if one.result is not None}
        kept = [one for one in records if id(one.invocation) in ended]
        for (owner, conversation), some in itertools.groupby(kept, lambda one: (one.owner, one.conversation)):
            if self.recorder is None or (owner, conversation) in self._superseded:
                continue
            key = asyncio.get_running_loop(), owner, conversation
            if key not in self._waiting:
                own = dataclasses.replace(scope, owner=owner, conversation=conversation)
                self._waiting[key] = _Waiting([], own)
                if len(self._waiting) > _MOST:
                    del self._waiting[next(one for one, waits in self._waiting.items() if waits.timer is None)]
            if key in self._waiting:
                self._waiting[key].records[:0] = some

    def forget(self, owner: str, conversation: str, canisters: Sequence[Canister]) -> None:
        """Forgets kept records whose results a conversation does not have: it was continued from the journal."""
        waiting = self._waiting.get((asyncio.get_running_loop(), owner, conversation))
        if waiting is not None and waiting.timer is None:
            self._take(owner, conversation)
            known = {id(one.invocation) for one in waiting.records if one.result in canisters}
            self.keep([one for one in waiting.records if id(one.invocation) in known], waiting.scope)

    def unwritten(self, owner: str, conversation: str) -> Sequence[Record]:
        """The records of a conversation that could not be written. ``recorded`` without records tries them again."""
        waiting = self._waiting.get((asyncio.get_running_loop(), owner, conversation))
        return () if waiting is None or waiting.timer is not None else tuple(waiting.records)

    def _take(self, owner: str, conversation: str) -> _Waiting | None:
        if not self._waiting:
            return None
        waiting = self._waiting.pop((asyncio.get_running_loop(), owner, conversation), None)
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()
        return waiting

    def written(self) -> asyncio.Future[None] | None:
        """Done when all records so far are written or have failed; None if they are already."""
        return self._queue.written if self._remote else None

    @property
    def _queue(self) -> RecordQueue:
        loop = asyncio.get_running_loop()
        found = self._queues.get(loop)
        if found is None:
            found = self._queues[loop] = RecordQueue(self._write, self._report)
        return found

    def _write(self, records: Sequence[Record]) -> Exception | None:
        assert self.recorder is not None
        try:
            self.recorder.record(records)
        except Exception as error:
            self._failure = error
            return error
        self._failure = None
        return None

    @property
    def away(self) -> bool:
        """Whether the last write failed because the recorder cannot be reached."""
        return isinstance(self._failure, Disconnected)

    def superseded(self, owner: str, conversation: str) -> Superseded | None:
        """The error of a conversation that another process has taken over, once; None if none has."""
        return self._superseded.pop((owner, conversation), None)

    def _report(self, error: Exception, records: Sequence[Record], scope: Circumstances) -> None:
        if isinstance(error, Superseded):
            # It ends the run.
            self._superseded |= {(one.owner, one.conversation): error for one in records}
            return
        self.keep(records, scope)
        self.alert(scope, Alert(message=f"The recorder failed with {reason(error)}", tool=records[0].tool))

    def together(self) -> AbstractContextManager[None]:
        """Records the calls that start within it in one commit at its end. The block must not await."""
        if self.recorder is None or self._remote or asyncio.get_running_loop() in self._starting:
            return _APART
        return self._together()

    @contextlib.contextmanager
    def _together(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        held = self._starting[loop] = []
        try:
            yield
        finally:
            del self._starting[loop]
            self._keep(held)

    def start(
        self, record: Record, scope: Circumstances, lost: Callable[[], None] = lambda: None, *, reads: bool = False
    ) -> bool:
        """Records a stage of a call: now, at the end of ``together``, or later if the recorder is remote.

        That of a call that only ``reads`` may wait for others.

        Returns whether the call may start; calls ``lost`` if that turns out to be wrong later.
        """
        # Until this returns, the caller learns of a failure by the result; later, by ``lost``.
        kept = True

        def then(written: bool) -> None:
            nonlocal kept
            kept = written
            if returned and not written:
                lost()

        returned = False
        held = self._starting.get(asyncio.get_running_loop()) if self._starting else None
        if reads and not (held or self._remote or self._failure is not None):
            self._wait(record, scope)
        elif held is None:
            self.record((record,), scope, then)
        else:
            held.append(Held(records=(record,), scope=scope, then=then))
        returned = True
        return kept

    def end(self, record: Record, scope: Circumstances, then: Callable[[], None], *, reads: bool = False) -> None:
        """Records that a call has ended. ``then`` is called when that is done or has failed; it must not raise.

        The record of a call that only ``reads`` may wait for others; ``then`` does not.
        """
        if reads and not self._remote:
            self._wait(record, scope)
            then()
            return
        loop = asyncio.get_running_loop()
        if loop not in self._ended:
            self._ended[loop] = []
            loop.call_soon(lambda: self._keep(self._ended.pop(loop)))
        self._ended[loop].append(Held(records=(record,), scope=scope, then=lambda _: then()))

    def _keep(self, held: Sequence[Held]) -> None:
        """Records these in one commit, unless it fails: another process may have taken over one conversation."""
        if self._remote:
            for one in held:
                self.record(one.records, one.scope, one.then)
        elif held:
            by_conversation: dict[tuple[str, str], list[Held]] = {}
            for one in held:
                by_conversation.setdefault((one.scope.owner, one.scope.conversation), []).append(one)
            self._write_now([self._whole(_joined(some)) for some in by_conversation.values()])

    def refuse(
        self, invocation: InvocationCanister, fault: Fault, scope: Circumstances, invoker: Invoker | None = None
    ) -> ResultCanister:
        """The result of a call that is not run, recorded as refused."""
        result = ResultCanister(invocation_id=invocation.identifier, error=fault, report=NOT_RUN)
        tool = invoker.identity if invoker else invocation.name
        self.start(record_of("refused", scope, tool, invocation, result), scope)
        return result

    def alert(self, scope: Circumstances, alert: Alert) -> None:
        """Sends an alert to the listener of this call and to the application."""
        if scope.notify is not None:
            scope.notify(alert)
        if self.surroundings is None:
            return
        try:
            self.surroundings.alert(alert)
        except Exception as error:
            context = {"message": f"The application failed to handle an alert: {alert.message}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
