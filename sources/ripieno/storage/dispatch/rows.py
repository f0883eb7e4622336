"""Submissions and schedules, as the rows of the engine have them."""

import datetime
import json
from collections.abc import Collection, Mapping
from typing import Any

import dbos

from ripieno.canisters.serialization import deserialize
from ripieno.exceptions import SerializationInvalidity
from ripieno.jsonvalues import EMPTY
from ripieno.storage.dispatch import cron
from ripieno.storage.dispatch.contract import Dispatched, Schedule, State, Submission
from ripieno.storage.dispatch.inspection import CANCELLED

#: The engine's statuses of the rows that may have a state.
STATUSES: Mapping[State, Collection[str]] = {
    "scheduled": ("DELAYED",),
    "queued": ("ENQUEUED",),
    "running": ("PENDING",),
    "waiting": ("SUCCESS",),
    "answered": ("SUCCESS",),
    "ended": ("SUCCESS",),
    "failed": ("SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"),
    "cancelled": ("SUCCESS", "CANCELLED", "ENQUEUED", "DELAYED"),
}
#: The states of runs with certain finishes.
_ENDED: Mapping[str, State] = {"open": "waiting", "error": "failed", "aborted": "failed", "cancelled": "cancelled"}


def dispatched_of(row: dbos.WorkflowStatus) -> Dispatched:
    """The state of the submission of a row."""
    output: Mapping[str, Any] = row.output or EMPTY
    finish, reason = str(output.get("finish", "")), str(output.get("reason", ""))
    if row.error is not None:
        reason = str(row.error)
    return Dispatched(
        submission=_submission(row),
        state=_state(row, finish),
        submitted=_time(row.created_at),
        finish=finish,
        reason=reason,
        worker=row.executor_id or "",
        starts=_time(row.delay_until_epoch_ms) if row.delay_until_epoch_ms else None,
        ended=_time(row.completed_at) if row.completed_at else None,
    )


def _submission(row: dbos.WorkflowStatus) -> Submission:
    """The submission of a row; of another release's, only its names."""
    assert row.input is not None
    try:
        return deserialize(Submission, row.input["args"][0])
    except SerializationInvalidity:
        owner, conversation = json.loads(row.queue_partition_key or '["", ""]')
        return Submission(identifier=row.workflow_id, conversation=conversation, owner=owner)


def schedule_of(row: Mapping[str, Any]) -> Schedule:
    """The schedule of a row; of another release's, without its submission."""
    try:
        submission = deserialize(Submission, row["context"]["submission"])
    except SerializationInvalidity:
        submission = Submission(identifier="", conversation="")
    expression = row["schedule"]
    return Schedule(name=row["schedule_name"], cron=expression, submission=submission, next=cron.next_time(expression))


def _is_cancelled(row: dbos.WorkflowStatus) -> bool:
    return bool((row.attributes or {}).get(CANCELLED))


def _state(row: dbos.WorkflowStatus, finish: str) -> State:
    if row.status == "SUCCESS":
        return _ENDED.get(finish, "ended")
    if row.status in ("ENQUEUED", "DELAYED") and _is_cancelled(row):
        return "cancelled"
    for state, statuses in STATUSES.items():
        if row.status in statuses:
            return state
    return "failed"


def _time(milliseconds: int | None) -> datetime.datetime:
    return datetime.datetime.fromtimestamp((milliseconds or 0) / 1000, datetime.UTC)
