"""``ripieno journal delete``: erases the content of conversations."""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Sequence

import click

from ripieno.approvals.visible_text import visible
from ripieno.assembly.deletion import delete_conversation
from ripieno.assembly.submission_states import runs_of
from ripieno.assembly.submissions import existing_queue, find_not_begun
from ripieno.canisters.display import brief, count
from ripieno.cli.common.main import confirm_loss, say
from ripieno.cli.common.options import common
from ripieno.cli.journal.queued import explaining_conducted
from ripieno.cli.journal.selection import (
    complete_conversation,
    journals,
    open_journal,
    owners,
    place_of,
    read_since,
)
from ripieno.cli.journal.transcript import moment
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import Conflict, NameAbsence
from ripieno.storage.dispatch.contract import Dispatcher
from ripieno.storage.dispatch.events import EventLog
from ripieno.storage.journal import Journal, Summary
from ripieno.storage.journal.summaries import Key
from ripieno.storage.places import Places


@click.command()
@click.argument("conversations", metavar="[CONVERSATION]...", nargs=-1, shell_complete=complete_conversation)
@click.option("--older-than", metavar="AGE", help="Delete conversations without an entry for this long, such as 90d.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@owners
@journals
@common
def delete(
    *, conversations: tuple[str, ...], owner: str | None, older_than: str | None, yes: bool, file: str | None
) -> None:
    """Delete the content of conversations for good.

    The text is overwritten in the file. Times, tools and digests stay, so that verify still works. What the queue has
    of them is deleted, too, also of one that has not begun. A conversation that another process conducts is not
    deleted: end that first. --older-than leaves it out, and one that is continued before it is deleted.

    \b
    Example:
      ripieno journal delete 3f9a
      ripieno journal delete --older-than 90d --yes
    """
    if bool(conversations) == (older_than is not None):
        raise click.UsageError("Name a conversation, or give --older-than.")
    selected, queued = list[Summary](), list[tuple[str, str]]()
    before = None if older_than is None else read_since(older_than)
    with open_journal(file) as one:
        if before is None:
            for name in dict.fromkeys(conversations):
                try:
                    selected.append(one.find(name, owner=owner))
                except NameAbsence:
                    # Perhaps no worker has taken it yet.
                    if (found := find_not_begun(place_of(file), one.database, name, owner)) is None:
                        raise
                    queued.append(found)
            selected = list({(summary.identifier, summary.owner): summary for summary in selected}.values())
        else:
            kept = (summary for summary in one.conversations(owner=owner) if not summary.deleted)
            selected = [summary for summary in kept if summary.last < before]
        if not selected and not queued:
            click.echo("No conversation matches.")
            return
        if not yes:
            _confirm(selected, queued)
        with existing_queue(place_of(file), one.database) as queue:
            keys = [(summary.identifier, summary.owner) for summary in selected]
            erase = functools.partial(_delete, one, place_of(file), queue, before)
            try:
                if before is None:
                    # Those that are named are deleted together or not at all.
                    erase([*keys, *dict.fromkeys(queued)])
                else:
                    _delete_each(erase, keys)
            finally:
                one.database.clean()


def _confirm(selected: list[Summary], queued: list[tuple[str, str]]) -> None:
    """Asks for confirmation. Errors: those of ``confirm_loss``."""
    for summary in selected[:20]:
        say(f"{visible(summary.identifier)}  {moment(summary.last)}  {brief(summary.words, 60)}")
    for name, _ in queued:
        say(f"{visible(name)}  has not begun; it is in the queue only, and does not begin after this")
    total = count(len(selected) + len(queued), "conversation")
    confirm_loss(f"Delete the content of {total}?", "delete", "deleted")


def _delete_each(erase: Callable[[Sequence[Key]], None], keys: Sequence[Key]) -> None:
    """Deletes conversations by themselves, and leaves out those that a process conducts or has continued."""
    for key in keys:
        try:
            erase([key])
        except Conflict as conflict:
            say(f"Left out: {conflict}")


def _delete(
    one: Journal,
    place: pathlib.Path | str,
    queue: Dispatcher | None,
    before: str | None,
    selected: Sequence[Key],
) -> None:
    """Deletes conversations, by their identifiers and owners.

    Errors: ``Conflict``, before, if a process conducts one: it would go on to record; or if it has a line since
    ``before``.
    """
    store = PausedStore(one.database)
    with contextlib.ExitStack() as claims:
        for name, owner in selected:
            with explaining_conducted(one, place, name, owner):
                claims.enter_context(store.claimed(name, owner=owner))
                runs = () if queue is None or one.has(name, owner=owner) else runs_of(queue, name, owner)
                if any(run.state == "running" for run in runs):
                    raise Conflict(f"A worker has taken the conversation {visible(name)}.")
        for name, owner in selected:
            # Others may have begun or continued it while a person was asked.
            if not one.has(name, owner=owner):
                EventLog(one.database).forget(owner, name)
                if queue is not None:
                    queue.forget(owner, name)
                click.echo(f"Deleted from the queue: {visible(name)}, which had not begun.")
                continue
            if before is not None and one.summary(name, owner=owner).last >= before:
                raise Conflict(f"The conversation {visible(name)} was continued meanwhile.")
            bodies = delete_conversation(one, name, owner=owner, state=Places.of_user().state, queue=queue)
            click.echo(f"Deleted: {visible(name)}, {bodies} lines.")
