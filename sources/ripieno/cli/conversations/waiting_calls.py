"""Calls that wait, as ``ripieno approvals`` prints them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ripieno.approvals.presentation import Presentation
from ripieno.canisters.conversation import Waiting
from ripieno.canisters.display import clean
from ripieno.cli.conversations.persistence import first_words
from ripieno.conducting.paused import Paused
from ripieno.ensembles import ServerClaim
from ripieno.jsonvalues import canonical, thaw
from ripieno.storage.journal import Journal

#: The states of calls with a result, by the last stage that the journal has of them.
_ENDED = {"refused": "was refused", "said": "has its result"}


def since(paused: Paused) -> str:
    """The time at which it paused, in UTC."""
    return f"{paused.at:%Y-%m-%d %H:%M}"


def begun_of(journal: Journal, paused: Paused) -> Mapping[str, str]:
    """The states of calls that have begun, in words, by their identifiers.

    A program that goes on with the conversation runs now, or it was killed.
    """
    opened = {one.identifier: one.timestamp for one in paused.conversation.open}
    states = journal.state_of(paused.identifier, owner=paused.owner) if opened else ()
    return {
        one.identifier: "started, its end is not recorded"
        if one.status == "outcome_unknown"
        else _ENDED.get(one.stage, "has run")
        for one in states
        if one.status != "never_started"
        and one.identifier in opened
        # Models use an identifier again.
        and (one.invocation is None or one.invocation.timestamp == opened[one.identifier])
    }


def state_of(paused: Paused, one: Waiting, begun: Mapping[str, str]) -> str:
    """The state of a waiting call, in words. ``begun`` has those of ``begun_of``."""
    if one.invocation in begun:
        return begun[one.invocation]
    if answer := paused.answer_to(one.invocation):
        return answer
    return {"approval": "waits for you", "behind": "waits for another call", "caller": "waits for a result"}.get(
        one.why, one.why
    )


def presentation_of(one: Waiting) -> Presentation:
    """The call as it was shown when it was asked about."""
    stored: dict[str, Any] = thaw(one.request)
    shown: dict[str, Any] = stored["presentation"]
    shown |= {"notes": tuple(shown["notes"]), "claim": shown["claim"] and ServerClaim(**shown["claim"])}
    return Presentation(
        **{field.name: shown[field.name] for field in dataclasses.fields(Presentation) if field.name in shown}
    )


def call_line(paused: Paused, waiting: Waiting) -> str:
    """The tool and the arguments of a call that is not shown for approval."""
    calls = [one for one in paused.conversation.open if one.identifier == waiting.invocation]
    return clean(" ".join([waiting.tool, *(canonical(one.arguments).decode() for one in calls)]))


def mapping_of(paused: Paused, begun: Mapping[str, str]) -> dict[str, Any]:
    """A paused conversation, for JSON."""
    return {
        "conversation": paused.identifier,
        "since": paused.at.isoformat(),
        "workspace": paused.workspace,
        "model": paused.model,
        "owner": paused.owner,
        "began_with": first_words(paused.conversation),
        "waiting": [waiting_mapping(paused, one, begun) for one in paused.conversation.waiting],
    }


def waiting_mapping(paused: Paused, one: Waiting, begun: Mapping[str, str]) -> dict[str, Any]:
    """A waiting call, for JSON."""
    return {
        "call": one.invocation,
        "tool": one.tool,
        "why": one.why,
        "state": state_of(paused, one, begun),
        "request": thaw(one.request) or None,
    }
