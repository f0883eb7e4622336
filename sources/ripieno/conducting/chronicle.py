"""What is written down of a run: who plays, what is said, what each answer took, and how it ended.

What becomes of calls is written by the pipeline. A result that came of a call of this run stands there, and is not
written twice; one that the caller gives is said like everything else.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import Canister, Conversation
from ripieno.canisters.controls import Finish
from ripieno.canisters.conversation import Usage, assistant_begins
from ripieno.canisters.events import TurnEnded
from ripieno.execution import Circumstances
from ripieno.execution.budget import Budget
from ripieno.execution.records import Reporter
from ripieno.storage.records import Record


class Chronicle:
    """Writes records of one conversation. A recorder that fails ends no run: an ``Alert`` tells of it."""

    def __init__(self, reporter: Reporter, conversation: Conversation) -> None:
        self._reporter = reporter
        self._identifier = conversation.identifier
        #: How many canisters the recorder has.
        self._kept = conversation.kept_by(reporter.recorder)
        self._began = False

    def begin(self, conversation: Conversation, around: Circumstances, details: Mapping[str, Any]) -> None:
        """Who plays, and all that was said before and is not written down yet."""
        if self._reporter.recorder is None:
            return
        self._began = True
        began = Record(
            stage="began",
            conversation=self._identifier,
            turn=around.turn,
            details={**details, "canisters": len(conversation.canisters)},
        )
        self._write((began, *self._new(conversation.canisters)), conversation, around)

    def say(self, conversation: Conversation, around: Circumstances) -> None:
        """What was said since."""
        if self._reporter.recorder is not None:
            self._write(tuple(self._new(conversation.canisters)), conversation, around)

    def answer(
        self,
        conversation: Conversation,
        canisters: Sequence[Canister],
        ended: TurnEnded,
        around: Circumstances,
        *,
        model: str,
        seconds: float,
    ) -> None:
        """A model's answer and what it took, before the calls that had to wait for its end begin."""
        if self._reporter.recorder is None:
            return
        first = len(conversation.canisters)
        said = [self._said(one, first + index, around.turn) for index, one in enumerate(canisters)]
        took = _took(model, ended, seconds)
        turned = Record(stage="turned", conversation=self._identifier, turn=around.turn, details=took)
        if self._reporter.record((*said, turned), around):
            self._kept = first + len(canisters)

    def stand(self, conversation: Conversation) -> None:
        """The results of the calls stand in the conversation, and are written down already."""
        if self._reporter.recorder is not None:
            self._kept = len(conversation.canisters)
            conversation.note_kept(self._reporter.recorder, conversation.canisters)

    def end(self, around: Circumstances, finish: Finish, budget: Budget) -> None:
        """How the run ended, if it began."""
        if self._began:
            usage = _tokens_of(budget.usage)
            details = {"finish": finish, "turns": budget.turns, "calls": budget.calls, "usage": usage}
            ended = Record(stage="ended", conversation=self._identifier, turn=around.turn, details=details)
            self._reporter.record((ended,), around)

    def _write(self, records: Sequence[Record], conversation: Conversation, around: Circumstances) -> None:
        if self._reporter.record(records, around):
            self._kept = len(conversation.canisters)
            conversation.note_kept(self._reporter.recorder, conversation.canisters)

    def _new(self, canisters: Sequence[Canister]) -> Iterator[Record]:
        """A record for each canister that the recorder lacks, with its place and the answer that it belongs to."""
        turn = 0
        for position, begins in enumerate(assistant_begins(canisters)):
            turn += begins
            if position >= self._kept:
                yield self._said(canisters[position], position, turn)

    def _said(self, canister: Canister, place: int, turn: int) -> Record:
        return Record(
            stage="said",
            conversation=self._identifier,
            turn=turn,
            canister=canister,
            details={"place": place},
        )


def _took(model: str, ended: TurnEnded, seconds: float) -> dict[str, Any]:
    """What an answer took, as JSON."""
    return {
        "model": model,
        "finish": ended.finish,
        "milliseconds": round(seconds * 1000),
        "usage": _tokens_of(ended.usage),
    }


def _tokens_of(usage: Usage) -> dict[str, int]:
    """Tokens as JSON, without what is none."""
    return {name: count for name, count in dataclasses.asdict(usage).items() if count}
