"""Records a run: its participants, its canisters, the cost of each answer, and its end.

The pipeline records the calls and their results, so those are not recorded again here. Results that the caller gives
are recorded like other canisters.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, Conversation
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage, assistant_begins
from ripieno.canisters.events import TurnEnded
from ripieno.execution import Circumstances
from ripieno.execution.budget import Budget
from ripieno.execution.records import Reporter
from ripieno.storage.databases.contract import Disconnected
from ripieno.storage.records import Record, Stage


class Chronicle:
    """Writes the records of one conversation.

    A recorder that fails does not end the run; it causes an ``Alert``. That another process has taken over the
    conversation does: see ``check``.
    """

    def __init__(self, reporter: Reporter, conversation: Conversation, owner: str) -> None:
        self._reporter = reporter
        #: The submission that the run carries out, if any.
        self.submitted = ""
        self._owner = owner
        self._identifier = conversation.identifier
        #: The number of canisters that the recorder has.
        self._kept = conversation.kept_by(reporter.recorder)
        #: The places of results that the pipeline records.
        self._results: set[int] = set()
        #: A number of first canisters, and of the answers that begin in them: a long conversation is counted once.
        self._counted = (0, 0)
        self._began = False
        #: Whether the end could not be recorded, because the recorder cannot be reached.
        self.unrecorded = False

    async def begin(self, conversation: Conversation, scope: Circumstances, details: Mapping[str, Any]) -> None:
        """Records the participants, and the earlier canisters that are not recorded yet.

        The beginning of a submission is awaited: a worker that does not find it says the message once more. Errors:
        ``Disconnected`` if it could not be recorded then, because the recorder cannot be reached.
        """
        if self._reporter.recorder is None:
            return
        self._began = True
        self._reporter.superseded(self._owner, self._identifier)
        self._reporter.forget(self._owner, self._identifier, conversation.canisters)
        counted = {**details, "canisters": len(conversation.canisters)}
        if self.submitted:
            counted["submitted"] = self.submitted
        began = self._record("began", scope.turn, details=counted)
        self._write((began, *self._new(conversation.canisters)), conversation, scope, self._begun)
        if self.submitted:
            await self.settled()
            if not self._began:
                raise Disconnected("The beginning of the run could not be recorded.")

    def say(self, conversation: Conversation, scope: Circumstances) -> None:
        """Records the canisters that were added since."""
        if self._reporter.recorder is not None:
            self._write(tuple(self._new(conversation.canisters)), conversation, scope)

    def answer(
        self,
        conversation: Conversation,
        canisters: Sequence[Canister],
        ended: TurnEnded,
        scope: Circumstances,
        *,
        model: str,
        seconds: float,
    ) -> None:
        """Records a model's answer and its cost, before the calls that waited for its end begin."""
        if self._reporter.recorder is None:
            return
        first = len(conversation.canisters)
        records = [*self._new(conversation.canisters)]
        records += (self._said(one, first + index, scope.turn) for index, one in enumerate(canisters))
        cost = {"milliseconds": round(seconds * 1000), "usage": _tokens_of(ended.usage)}
        details = {"model": model, "finish": ended.finish, **cost}
        turned = self._record("turned", scope.turn, details=details)
        self._keep((*records, turned), first + len(canisters), scope)

    def skip(self, conversation: Conversation, results: int) -> None:
        """Notes that the last canisters of the conversation are results, which the pipeline records."""
        if self._reporter.recorder is not None:
            count = len(conversation.canisters)
            self._results.update(range(count - results, count))
            if self._kept == count - results:
                self._kept = count
            self.note(conversation)

    def note(self, conversation: Conversation) -> None:
        """Notes in the conversation which of its canisters are recorded, so that a later run records the others."""
        if self._reporter.recorder is not None:
            conversation.note_kept(self._reporter.recorder, conversation.canisters[: self._kept])

    def check(self) -> None:
        """Errors: ``Superseded`` if another process has taken over the conversation."""
        error = self._reporter.superseded(self._owner, self._identifier)
        if error is not None:
            raise error

    async def finish(self) -> None:
        """Waits as ``settled``. Errors: those of ``check``."""
        await self.settled()
        self.check()

    async def settled(self) -> None:
        """Waits until all records so far are written or have failed. Cancelling the waiter stops no record."""
        if (written := self._reporter.written()) is not None:
            await asyncio.shield(written)

    def end(self, scope: Circumstances, finish: Finish, budget: Budget) -> None:
        """Records the end of the run, if it began."""
        if self._began:
            usage = _tokens_of(budget.usage)
            details: dict[str, Any] = {
                "finish": finish,
                "turns": budget.turns,
                "calls": budget.calls,
                "usage": usage,
            }
            if self.submitted and finish != "cancelled":
                # A worker that ends cancels its runs, and another one carries the submission out.
                details["submitted"] = self.submitted
            self._reporter.record((self._record("ended", scope.turn, details=details),), scope, self._ended)

    def _ended(self, well: bool) -> None:
        self.unrecorded = not well and self._reporter.away

    def _begun(self, well: bool) -> None:
        self._began = well or not (self.submitted and self._reporter.away)

    def _write(
        self,
        records: Sequence[Record],
        conversation: Conversation,
        scope: Circumstances,
        then: Callable[[bool], None] = lambda _: None,
    ) -> None:
        recorder, known = self._reporter.recorder, conversation.canisters[: self._kept]

        def written(well: bool) -> None:
            if not well:
                conversation.note_kept(recorder, known)
            then(well)

        conversation.note_kept(recorder, conversation.canisters)
        self._keep(records, len(conversation.canisters), scope, written)

    def _keep(
        self,
        records: Sequence[Record],
        kept: int,
        scope: Circumstances,
        then: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Writes records, after which the recorder has this many canisters. Those that fail are written again later."""
        before = self._kept

        def written(well: bool) -> None:
            if not well:
                self._kept = min(self._kept, before)
            then(well)

        self._kept = kept
        self._reporter.record(records, scope, written)

    def _new(self, canisters: Sequence[Canister]) -> Iterator[Record]:
        known, turn = self._counted if self._counted[0] <= self._kept else (0, 0)
        first = max(known - 1, 0)
        for position, begins in enumerate(assistant_begins(canisters[first:]), first):
            if position < known:
                continue  # Counted before; it says whether the next one begins an answer.
            turn += begins
            if position >= self._kept and position not in self._results:
                yield self._said(canisters[position], position, turn)
        self._counted = len(canisters), turn

    def _said(self, canister: Canister, place: int, turn: int) -> Record:
        return self._record("said", turn, canister=canister, details={"place": place})

    def _record(self, stage: Stage, turn: int, **fields: Any) -> Record:
        return Record(stage=stage, conversation=self._identifier, turn=turn, owner=self._owner, **fields)


def _tokens_of(usage: Usage) -> dict[str, int]:
    return {name: count for name, count in dataclasses.asdict(usage).items() if count}
