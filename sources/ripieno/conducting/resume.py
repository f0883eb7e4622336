"""Goes on with a conversation that waited for a person, or whose process ended in the middle: nothing runs twice.

The journal knows what became of each call. One that was started, and of which nothing is known after that, is not
repeated: the model reads that nobody knows. One that never started takes its way through the pipeline now.
"""

import dataclasses
import re
from collections.abc import Mapping

from frozendict import frozendict

from ripieno.approvals import Given
from ripieno.canisters import Canister, Conversation, InvocationCanister, ResultCanister
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.faults import Fault
from ripieno.conducting.paused import Paused
from ripieno.exceptions import NameAbsence
from ripieno.jsonvalues import canonical
from ripieno.storage.journal import InvocationState, Journal, Restored

#: What a model reads of a call that was started, and of which nothing is known after that.
UNKNOWN = Fault(
    category="outcome_unknown",
    message="The program ended while this call ran, and nobody knows what it did.",
    recoverable=False,
    suggestion="Find out what it did before you repeat it.",
)
#: What stands in the journal in place of a secret.
_FINGERPRINT = re.compile(r"\[secret [0-9a-f]{12}\]")
_INCOMPLETE = Fault(
    category="cancelled",
    message="The program ended before this call ran, and its arguments had a secret, which is kept nowhere.",
    suggestion="Call it again if it is still needed.",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resumable:
    """What to conduct next, and the answers that were given meanwhile."""

    conversation: Conversation
    answers: Mapping[str, Given] = frozendict[str, Given]()


def resumable(journal: Journal, identifier: str, paused: Paused | None = None) -> Resumable:
    """A conversation as it can be gone on with; from what was ``paused``, as long as nothing has happened since.

    Errors: ``NameAbsence`` where neither knows it, ``InputError`` where what was said was deleted.
    """
    try:
        restored = journal.restore(identifier)
    except NameAbsence:
        if paused is None:
            raise
        return Resumable(conversation=paused.conversation, answers=paused.answers)
    if paused is not None and _is_untouched(paused.conversation, restored):
        # Where a secret stands in it, the journal has only a fingerprint.
        conversation = paused.conversation
        conversation.note_kept(journal, conversation.canisters)
        return Resumable(conversation=conversation, answers=paused.answers)
    return Resumable(conversation=_interrupted(journal, restored))


def _is_untouched(conversation: Conversation, restored: Restored) -> bool:
    if len(restored.conversation.canisters) != len(conversation.canisters):
        return False
    waiting = {one.identifier for one in conversation.open}
    states = {state.identifier: state.status for state in restored.states}
    return all(states.get(one) == "never_started" for one in waiting)


def _interrupted(journal: Journal, restored: Restored) -> Conversation:
    """What the journal tells, with a result for each call of which nobody knows."""
    conversation = restored.conversation
    conversation.note_kept(journal, conversation.canisters)
    states = {state.identifier: state for state in restored.states}
    added: list[Canister] = []
    waiting: list[InvocationCanister] = []
    for invocation in conversation.open:
        state = states.get(invocation.identifier)
        if state is not None and state.status == "outcome_unknown":
            added.append(ResultCanister(invocation_id=invocation.identifier, error=UNKNOWN))
        elif _FINGERPRINT.search(canonical(invocation.arguments).decode()):
            added.append(ResultCanister(invocation_id=invocation.identifier, error=_INCOMPLETE))
        else:
            waiting.append(invocation)
    return conversation.replace(
        canisters=(*conversation.canisters, *added),
        open=tuple(waiting),
        waiting=tuple(
            Waiting(invocation=one.identifier, why="interrupted", tool=_tool(states.get(one.identifier)))
            for one in waiting
        ),
        finish=None if added or waiting else conversation.finish,
    )


def _tool(state: InvocationState | None) -> str:
    return "" if state is None else state.tool
