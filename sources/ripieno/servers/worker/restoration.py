"""``Restorer``: what the run of a stretch begins with, from all that programs have recorded of its conversation."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.approvals.allowances import Allowance
from ripieno.canisters import AssistantCanister, Conversation, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.conducting.paused import Paused, PausedStore
from ripieno.conducting.resume import Resumable, resumable
from ripieno.jsonvalues import EMPTY
from ripieno.servers.worker.allowed_calls import AllowedCalls
from ripieno.storage.dispatch.contract import Ending, Submission
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.journal import Journal
from ripieno.storage.journal.lines import Line
from ripieno.storage.records import Record, Stage
from ripieno.values import Value


class Restored(Value, kw_only=True):
    """The conversation, the answers and the approvals with which a run begins."""

    resumable: Resumable
    paused: Paused | None
    allowances: Sequence[Allowance]
    #: The number of the last event of its conversation.
    last_event: int
    #: Whether a stretch of the submission has begun before.
    begun: bool


class Restorer:
    """Restores conversations that a worker has claimed. It blocks. Errors: ``InputError``."""

    def __init__(self, journal: Journal, paused: PausedStore, events: EventLog, allowed: AllowedCalls) -> None:
        self._journal = journal
        self._paused = paused
        self._events = events
        self._allowed = allowed

    def restore(self, submission: Submission) -> Restored | Ending:
        """The conversation to go on with; or its end, if an earlier worker has recorded it."""
        owner, name = submission.owner, submission.conversation
        began = ended = None
        paused = self._paused.load(name, owner=owner)
        restored = Resumable(conversation=Conversation(identifier=name))
        known = self._journal.has(name, owner=owner)
        if paused is not None or known:
            began, ended = self._marked(submission, "began"), self._marked(submission, "ended")
            restored = resumable(self._journal, name, paused, owner=owner)
        conversation = restored.conversation
        finish = "" if ended is None else str(_details(ended).get("finish", ""))
        # A question that was not kept is asked again. That of an earlier run may still be there.
        asked = None if paused is None else paused.submission
        kept = asked is not None and asked.identifier == submission.identifier
        if ended is not None and not (finish == "open" and not kept and conversation.open):
            return Ending(finish=finish)
        if began is not None and not conversation.open and (answered := self._answered(submission, began)) is not None:
            return self._end(submission, answered)
        last = conversation.canisters[-1] if conversation.canisters else None
        if not submission.canisters and isinstance(last, AssistantCanister):
            # Another program has continued it meanwhile, to its end: the model is not asked once more.
            return Ending(finish=conversation.finish or "stop")
        if submission.canisters and began is None:
            if conversation.open:
                conversation = conversation.decline_open(_words(submission) or "The user sent something else instead.")
            conversation = conversation.say(submission.canisters)
            restored = Resumable(conversation=conversation)
        return Restored(
            resumable=restored,
            paused=paused,
            allowances=self._allowed.read(submission) if known else (),
            last_event=self._events.last(owner, name),
            begun=began is not None,
        )

    def _marked(self, submission: Submission, stage: Stage) -> Line | None:
        """The first line of a stage that names the submission."""
        lines = self._journal.lines(submission.conversation, owner=submission.owner, stage=stage)
        return next((one for one in lines if _details(one).get("submitted") == submission.identifier), None)

    def _answered(self, submission: Submission, began: Line) -> Line | None:
        """The last answer of a run, if nothing was left to do after it: its worker ended before it recorded the end.

        Or it recorded that it gave the run back.
        """
        last = began
        for line in self._journal.lines(submission.conversation, owner=submission.owner):
            if line.stage != "ended" or _details(line).get("finish") != "cancelled":
                last = line
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


def _words(submission: Submission) -> str:
    """The text of the message of a submission."""
    return "\n".join(text_of(one.content) for one in submission.canisters if isinstance(one, UserCanister))


def _details(line: Line) -> Mapping[str, Any]:
    return EMPTY if line.record is None else line.record.details
