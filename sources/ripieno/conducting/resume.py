"""Resumes a conversation that waited for a person, or whose process ended early, without running a call twice.

The journal has the state of each call. A call that started and has no recorded end is not repeated: the model reads
that its outcome is unknown. A call that never started goes through the pipeline now.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.approvals import Given
from ripieno.canisters import Canister, Conversation, InvocationCanister, ResultCanister
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.faults import Fault
from ripieno.conducting.paused import Paused
from ripieno.exceptions import InputError, NameAbsence
from ripieno.jsonvalues import canonical
from ripieno.lazy.expressions import expression
from ripieno.storage.journal import Journal, Restored, Unfinished
from ripieno.values import Value

#: The fault of a call that started and has no recorded end.
UNKNOWN = Fault(
    category="outcome_unknown",
    message="The program ended while this call ran. Its outcome is unknown.",
    recoverable=False,
    suggestion="Find out what it did before you repeat it.",
)
#: A redacted secret in the journal.
_FINGERPRINT = expression(r"\[secret [0-9a-f]{12}\]")
_INCOMPLETE = Fault(
    category="cancelled",
    message="The program ended before this call ran, and its arguments had a secret, which is not stored.",
    suggestion="Call it again if it is still needed.",
)


class Resumable(Value, kw_only=True):
    """The conversation to conduct, and the answers that were given meanwhile.

    ``cut`` has the texts that the model wrote at last, if its answer was cut off, ``unfinished`` the earlier answers
    that are not complete. The texts are no part of the conversation.
    ``missing`` counts the first canisters that were not read: it can be shown, and not conducted. ``workspace``,
    ``model`` and ``agent`` are those that were named for its latest run. ``interrupted``: that run has no end, or ended
    with its server. ``stages`` has what is recorded last of each open call, by its identifier.
    """

    conversation: Conversation
    answers: Mapping[str, Given] = frozendict[str, Given]()
    cut: tuple[Mapping[str, Any], ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    missing: int = 0
    workspace: str = ""
    model: str = ""
    agent: str = ""
    interrupted: bool = False
    stages: Mapping[str, str] = frozendict[str, str]()


def resumable(
    journal: Journal,
    identifier: str,
    paused: Paused | None = None,
    *,
    owner: str | None = None,
    under_way: bool = False,
) -> Resumable:
    """The conversation to resume: the ``paused`` one if it has not changed since, otherwise that of the journal.

    ``owner`` limits the look-up to this user's conversations. One that is ``under_way`` elsewhere is only to look at:
    its calls still run.

    Errors: ``NameAbsence`` if neither has it; ``InputError`` if its content was deleted, or is not all recorded.
    """
    try:
        restored = journal.restore(identifier, owner=owner)
    except NameAbsence:
        if paused is None:
            raise
        return paused_resumable(paused)
    if paused is not None:
        restored = restored.after(paused.conversation.canisters[: restored.missing])
    restored.require_all()
    if paused is not None and _is_untouched(paused.conversation, restored):
        # Of a secret, the journal has only a fingerprint.
        conversation = paused.conversation
        conversation.note_kept(journal, conversation.canisters)
        model = _named(restored)["named_model"] if paused.submission is None else paused.submission.model
        return dataclasses.replace(paused_resumable(paused), unfinished=restored.unfinished, model=model)
    results = () if paused is None else paused.results
    conversation = with_results(results, _interrupted(journal, restored, under_way=under_way))
    return _resumable(restored, conversation)


def resumable_end(journal: Journal, identifier: str, *, owner: str, newest: int, under_way: bool = False) -> Resumable:
    """The end of a conversation that does not wait, with at least the ``newest`` canisters, to look at.

    ``under_way`` and errors: those of ``resumable``.
    """
    restored = journal.restore_end(identifier, owner=owner, newest=newest)
    return _resumable(restored, _interrupted(journal, restored, under_way=under_way))


def paused_resumable(paused: Paused) -> Resumable:
    """The conversation to resume from its saved state alone."""
    conversation = with_results(paused.results, paused.conversation)
    return Resumable(
        conversation=conversation,
        answers=paused.answers,
        workspace=paused.workspace,
        model=paused.model,
        agent=paused.agent,
    )


def lost_results(journal: Journal, conversation: Conversation, owner: str) -> tuple[ResultCanister, ...]:
    """The results of open calls that had started, and of whose end nothing is recorded: they are not repeated.

    ``resumable`` has added these; another copy, such as that of ``Journal.restore`` or a client's, lacks them. Errors:
    ``InputError`` of the database.
    """
    try:
        states = journal.restore_end(conversation.identifier, owner=owner, newest=1).states
    except InputError:  # It is not recorded, or not all of it, or erased.
        states = journal.state_of(conversation.identifier, owner=owner)
    opened = {one.identifier: one.timestamp for one in conversation.open}
    lost = [one for one in states if one.status == "outcome_unknown" and one.identifier in opened]
    return tuple(
        ResultCanister(invocation_id=one.identifier, error=UNKNOWN)
        for one in lost
        # Models use an identifier again.
        if one.invocation is None or one.invocation.timestamp == opened[one.identifier]
    )


def with_results(results: Sequence[ResultCanister], conversation: Conversation) -> Conversation:
    """The conversation with those of the results that it still waits for."""
    opened = {one.identifier for one in conversation.open}
    fitting = [one for one in results if one.invocation_id in opened]
    return conversation.say(fitting) if fitting else conversation


def _resumable(restored: Restored, conversation: Conversation) -> Resumable:
    named = _named(restored)
    opened = {one.identifier for one in conversation.open}
    return Resumable(
        conversation=conversation,
        cut=restored.cut,
        unfinished=restored.unfinished,
        missing=restored.missing,
        workspace=named["workspace"],
        model=named["named_model"],
        agent=named["agent"],
        interrupted=not restored.ended,
        stages={one.identifier: one.stage for one in restored.states if one.identifier in opened},
    )


def _named(restored: Restored) -> Mapping[str, str]:
    """What its latest run was made with, by name; an empty text for what was not named."""
    return {key: str(restored.participants.get(key) or "") for key in ("workspace", "named_model", "agent")}


def _is_untouched(conversation: Conversation, restored: Restored) -> bool:
    if len(restored.conversation.canisters) != len(conversation.canisters):
        return False
    waiting = {one.identifier for one in conversation.open}
    states = {state.identifier: state.status for state in restored.states}
    return all(states.get(one) == "never_started" for one in waiting)


def _interrupted(journal: Journal, restored: Restored, *, under_way: bool) -> Conversation:
    """The conversation of the journal, with a result for each call whose outcome is unknown, unless it is under way."""
    conversation = restored.conversation
    conversation.note_kept(journal, conversation.canisters)
    if under_way:
        return conversation
    states = {state.identifier: state for state in restored.states}
    added: list[Canister] = []
    opened: list[InvocationCanister] = []
    waiting: list[Waiting] = []
    for invocation in conversation.open:
        state = states.get(invocation.identifier)
        if state is not None and state.status == "outcome_unknown":
            added.append(ResultCanister(invocation_id=invocation.identifier, error=UNKNOWN))
        elif _FINGERPRINT.search(canonical(invocation.arguments).decode()):
            added.append(ResultCanister(invocation_id=invocation.identifier, error=_INCOMPLETE))
        else:
            opened.append(invocation)
            tool = "" if state is None else state.tool
            waiting.append(Waiting(invocation=invocation.identifier, why="interrupted", tool=tool))
    return conversation.replace(
        canisters=(*conversation.canisters, *added),
        open=tuple(opened),
        waiting=tuple(waiting),
        finish=None if added or waiting else conversation.finish,
    )
