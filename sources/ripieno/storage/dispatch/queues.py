"""The queues of submissions: for each priority, one on each host, and one that any worker looks into."""

import json
from collections.abc import Collection

from ripieno.exceptions import InputError
from ripieno.storage.dispatch.contract import PRIORITIES, Priority, Submission


def queue_of(priority: Priority, host: str) -> str:
    """The name of a queue; without a host, that of one for any worker."""
    return f"ripieno {priority}@{host}" if host else f"ripieno {priority}"


def key_of(owner: str, conversation: str) -> str:
    """The key of a conversation: those of one key run one after another in their queue."""
    return json.dumps([owner, conversation])


def queue_after(submission: Submission, active: Collection[str]) -> str:
    """The queue in which a run comes after those of its conversation that have not ended, which are in ``active``.

    Only within a queue there is an order: on its host, a run shares their priority. Errors: ``InputError`` if they are
    for another host.
    """
    queue = queue_of(submission.priority, submission.host)
    if not active or queue in active:
        return queue
    for one in (queue_of(priority, submission.host) for priority in PRIORITIES):
        if one in active:
            return one
    there = " and ".join(sorted({_place(one.partition("@")[2]) for one in active}))
    raise InputError(
        f"A run of this conversation has not ended, and is for {there}; this one is for {_place(submission.host)}, and "
        "could overtake it. Submit it for the same place, or when that run has ended: ripieno runs list"
    )


def _place(host: str) -> str:
    return f"the host {host}" if host else "any worker"
