"""The conversation that a command means: a named one, the only one of this folder that waits, or the latest of it."""

import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters.display import short
from ripieno.cli.common.completion import completion
from ripieno.cli.conversations.cassettes import ANSWERED
from ripieno.cli.conversations.persistence import Keeper, continuation, resume_command
from ripieno.cli.journal.queued import explaining_queued
from ripieno.cli.journal.selection import open_journal, own_place
from ripieno.conducting.paused import Paused
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.journal import Journal, Summary
from ripieno.values import Value

#: Recent conversations that are looked at, and continuations elsewhere that a message lists.
_RECENT = 50
_LISTED = 3
#: Waiting conversations for which a refusal has the command.
_NAMED = 10


class FoundConversation(Value, kw_only=True):
    """A conversation of an owner, with its saved state, if it waits, and its earlier model, tools and workspace.

    ``last`` is when it went on last, as ISO 8601 in UTC.
    """

    identifier: str
    owner: str
    last: str
    paused: Paused | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    workspace: str | None = None

    @classmethod
    def of_paused(cls, paused: Paused) -> "FoundConversation":
        """A conversation that waits."""
        return cls(
            identifier=paused.identifier,
            owner=paused.owner,
            last=paused.at.isoformat(),
            paused=paused,
            model=paused.model,
            tools=paused.tools,
            workspace=paused.workspace,
        )

    @classmethod
    def of_journal(cls, journal: Journal, summary: Summary) -> "FoundConversation":
        """A conversation of the journal, with what its latest run had."""
        began = [line.record for line in journal.lines(summary.identifier, owner=summary.owner, stage="began")]
        details: Mapping[str, Any] = {} if not began or began[-1] is None else began[-1].details
        tools = details.get("tools")
        return cls(
            identifier=summary.identifier,
            owner=summary.owner,
            last=summary.last,
            model=details.get("model"),
            tools=None if tools is None else tuple(tools),
            workspace=details.get("workspace"),
        )

    def is_of(self, workspace: pathlib.Path) -> bool:
        """Whether it belongs to this workspace, or to none."""
        return self.workspace is None or pathlib.Path(self.workspace).resolve() == workspace.resolve()

    def check(self, loaded: LoadedConfiguration) -> None:
        """Errors: ``InputError`` if the workspace is another one than before."""
        if not self.is_of(loaded.workspace):
            raise InputError(
                f"The workspace of the conversation is {self.workspace}, not {loaded.workspace.resolve()}. "
                f"Change to that folder, or add: --workspace {self.workspace}"
            )


def find(keeper: Keeper, beginning: str) -> FoundConversation:
    """The conversation with this beginning of its identifier. Errors: ``NameAbsence``; ``InputError`` for several."""
    try:
        return FoundConversation.of_paused(keeper.store.find(beginning))
    except NameAbsence:
        if keeper.journal is None:
            raise
    return FoundConversation.of_journal(keeper.journal, keeper.journal.find(beginning))


def find_or_latest(
    keeper: Keeper, beginning: str, workspace: pathlib.Path, *, ended: bool = False
) -> FoundConversation:
    """The conversation whose identifier has this beginning.

    Without one: the only one of the workspace that waits, or else the latest that was interrupted, or else, if
    ``ended``, the latest at all that no gateway client requested. Errors: ``NameAbsence``; ``InputError`` if several
    match, or none.
    """
    if not beginning:
        return _latest(keeper, workspace, ended=ended)
    if keeper.journal is None:
        return find(keeper, beginning)
    with explaining_queued(keeper.journal, own_place(), beginning, None):
        return find(keeper, beginning)


def only_waiting(waiting: Sequence[Paused], workspace: pathlib.Path, command: Callable[[Paused], str]) -> Paused | None:
    """The one conversation of the workspace that waits; None if there is none.

    Errors: ``InputError`` if several wait, with the command for each. None of them is the obvious one to act on.
    """
    here = [one for one in waiting if FoundConversation.of_paused(one).is_of(workspace)]
    if len(here) > 1:
        listed = command_lines([command(one) for one in reversed(here)][:_NAMED])
        advice = "To see what each is about: ripieno approvals list"
        raise InputError(
            f"{len(here)} conversations of {workspace.resolve()} wait. Name the one you mean:{listed}\n{advice}"
        )
    return here[0] if here else None


def command_lines(commands: Sequence[str]) -> str:
    """Commands for a message, each on a line of its own."""
    return "".join(f"\n  {one}" for one in commands)


def _latest(keeper: Keeper, workspace: pathlib.Path, *, ended: bool) -> FoundConversation:
    journal, paused = keeper.journal, keeper.store.all()
    if (only := only_waiting(paused, workspace, resume_command)) is not None:
        return FoundConversation.of_paused(only)
    waiting = [FoundConversation.of_paused(one) for one in reversed(paused)]
    own = () if journal is None else (one for one in journal.conversations(limit=_RECENT) if _continues(one))
    interrupted = () if journal is None else (FoundConversation.of_journal(journal, one) for one in own)
    elsewhere: list[FoundConversation] = []
    for one in itertools.chain(waiting, interrupted):
        if one.is_of(workspace):
            return one
        elsewhere.append(one)
    if ended and journal is not None:
        every = (one for one in journal.conversations(limit=_RECENT) if _is_own(one))
        for found in (FoundConversation.of_journal(journal, one) for one in every):
            if found.is_of(workspace):
                return found
    known: dict[str, FoundConversation] = {}
    for one in elsewhere:
        known.setdefault(one.identifier, one)
    commands = command_lines([_command(one, keeper.options) for one in list(known.values())[:_LISTED]])
    others = f" In other folders:{commands}" if commands else " To start one: ripieno ask"
    raise InputError(f"No conversation of {workspace.resolve()} waits or was interrupted.{others}")


def _is_own(summary: Summary) -> bool:
    """Whether a model was asked, and not by a client of the gateway."""
    return summary.conducted and not summary.owner and not summary.deletions


def _continues(summary: Summary) -> bool:
    """Whether a conversation was interrupted. One that waits is stored beside the journal, too."""
    return _is_own(summary) and summary.finish not in ANSWERED


def _command(one: FoundConversation, options: Sequence[str]) -> str:
    if one.paused is not None:
        return resume_command(one.paused)
    return continuation(short(one.identifier), one.workspace, options)


def _resumable(context: click.Context) -> Sequence[str]:
    with context.scope(), open_journal(None) as journal:
        return list(_identifiers(journal))


def _identifiers(journal: Journal) -> Iterator[str]:
    for summary in journal.conversations(limit=_RECENT):
        if summary.conducted and not summary.deletions and summary.finish not in ANSWERED:
            yield summary.identifier


#: Completes conversations that wait or were interrupted.
complete_resumable = completion(_resumable)
