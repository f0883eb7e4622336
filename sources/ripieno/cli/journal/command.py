"""``ripieno journal``: lists, shows, searches, exports, verifies, forks and deletes recorded conversations."""

import dataclasses
import functools
import pathlib
import sys

import click

from ripieno.approvals.visible_text import visible
from ripieno.canisters.display import brief, count
from ripieno.canisters.serialization import serialize
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import say
from ripieno.cli.common.options import EXISTING_FILE, FILE, Format, Number, common, formats
from ripieno.cli.common.tables import abbreviated, print_json, print_table
from ripieno.cli.journal.deletion import delete
from ripieno.cli.journal.queued import explaining_queued
from ripieno.cli.journal.selection import (
    complete_conversation,
    find_conversation,
    find_named,
    has_journal,
    journals,
    limits,
    name_of,
    new_place,
    open_journal,
    owners,
    place_of,
)
from ripieno.cli.journal.transcript import ABBREVIATED, found_rows, heading, moment, transcript
from ripieno.exceptions import InputError
from ripieno.storage.files import open_private
from ripieno.storage.journal import Anchor, Journal, Summary, anchor_line, read_anchor
from ripieno.storage.journal.copies import copy_journal


@click.group()
@common
def journal() -> None:
    """List, show, search, verify, fork and delete conversations.

    Name a CONVERSATION by the first characters of its identifier; the default is the latest.

    \b
    Example:
      ripieno journal list
      ripieno journal show
      ripieno journal verify
    """


@journal.command("list")
@limits("conversations", default=20)
@click.option("--all", "everything", is_flag=True, help="List all conversations.")
@formats
@journals
@common
def list_(*, limit: int, everything: bool, output: Format, file: str | None) -> None:
    """List the conversations, the latest first.

    \b
    Example:
      ripieno journal list
      ripieno journal list --all --format json
    """
    if not has_journal(file):
        summaries, total = list[Summary](), 0
    else:
        with open_journal(file) as one:
            summaries = list(one.conversations(limit=None if everything else limit))
            total = one.count()
    if output == "json":
        print_json([summary.mapping() for summary in summaries])
        return
    if not summaries:
        click.echo(f"Nothing has been recorded in {name_of(file)}.")
        return
    short = abbreviated((one.identifier for one in summaries), ABBREVIATED)
    rows = [
        (
            short[one.identifier],
            moment(one.last),
            str(one.turns),
            str(one.calls),
            visible(one.model or "-"),
            visible(one.finish or "-"),
            "(deleted)" if one.deleted and not one.words else brief(one.words, 60),
        )
        for one in summaries
    ]
    print_table(("CONVERSATION", "LAST (UTC)", "TURNS", "CALLS", "MODEL", "END", "BEGINS WITH"), rows)
    if len(summaries) < total:
        say(f"Showing the latest {limit} of {total:,}. For more, use --limit, or --all.")


@journal.command()
@click.argument("conversation", required=False, shell_complete=complete_conversation)
@click.option("--full", is_flag=True, help="Show long messages in full.")
@formats
@owners
@journals
@common
def show(*, conversation: str | None, owner: str | None, full: bool, output: Format, file: str | None) -> None:
    """Show a conversation, with the outcomes of its calls.

    Control characters are shown as escapes. Messages have the numbers for: ripieno journal fork --at

    \b
    Example:
      ripieno journal show
      ripieno journal show 3f9a --full
    """
    with open_journal(file) as one:
        with explaining_queued(one, place_of(file), conversation, owner):
            summary = find_conversation(one, conversation, owner)
        lines = one.lines(summary.identifier, owner=summary.owner)
        if output == "json":
            print_json({"conversation": summary.mapping(), "lines": [line.mapping() for line in lines]})
            return
        click.echo(heading(summary))
        for text in transcript(lines, full=full):
            click.echo(text)


@journal.command()
@click.argument("text")
@click.option("--conversation", metavar="C", help="Search only this conversation.")
@click.option("--tool", metavar="ENSEMBLE.TOOL", help="Search only entries about this tool.")
@click.option("--stage", metavar="STAGE", help="Search only lines of this stage, such as said or finished.")
@limits("lines", default=50)
@formats
@owners
@journals
@common
def search(
    *,
    text: str,
    conversation: str | None,
    owner: str | None,
    tool: str | None,
    stage: str | None,
    limit: int,
    output: Format,
    file: str | None,
) -> None:
    """Search the journal for a text. The exit code is 1 if it is not found.

    A call is recorded at each stage: stages with the same text are one row. With --format json, each line is listed.

    \b
    Example:
      ripieno journal search README.rst
      ripieno journal search "rm -rf" --tool execution.run_command --stage started
    """
    if not text:
        raise click.UsageError("The text to search for is empty.")
    with open_journal(file) as one:
        named, whose = find_named(one, conversation, owner)
        # One more, to know whether there are others.
        lines = list(one.lines(named, owner=whose, stage=stage, tool=tool, text=text, limit=limit + 1))
    more, lines = len(lines) > limit, lines[:limit]
    if output == "json":
        print_json([line.mapping() for line in lines])
    elif lines:
        print_table(("CONVERSATION", "LINE", "TIME (UTC)", "STAGE", "TOOL", "TEXT"), found_rows(lines, text))
        if more:
            say(f"Showing the first {limit}. For more, use --limit.")
    if not lines:
        say("Not found.")
        raise click.exceptions.Exit(exit_codes.REFUSED)


@journal.command()
@click.argument("conversation", required=False, shell_complete=complete_conversation)
@click.option(
    "--output",
    "target",
    metavar="FILE",
    type=FILE,
    help="The file to write, instead of standard output. It must not exist.",
)
@owners
@journals
@common
def export(*, conversation: str | None, owner: str | None, target: pathlib.Path | None, file: str | None) -> None:
    """Write the journal, or one CONVERSATION, as JSONL.

    The last line is an anchor: it records the end of the journal. Keep it where no one who can write the journal can
    change it. With it, verify detects lines that were cut off or rewritten.

    \b
    Example:
      ripieno journal export --output journal-2026-01.jsonl
      ripieno journal export 3f9a > conversation.jsonl
    """
    with open_journal(file) as one:
        with explaining_queued(one, place_of(file), conversation, owner):
            named, whose = find_named(one, conversation, owner)
        anchor = one.anchor()
        if target is None:
            for text in one.export(named, owner=whose):
                sys.stdout.write(text)
            sys.stdout.write(anchor_line(anchor))
            return
        try:
            with open(target, "x", encoding="ascii", opener=open_private) as written:
                written.writelines(one.export(named, owner=whose))
                written.write(anchor_line(anchor))
        except FileExistsError:
            raise InputError(f"{target} already exists and is not overwritten. Name another file.") from None
    say(f"Written to {target}, up to line {anchor.number}.")


@journal.command()
@click.option(
    "--anchor",
    "anchored",
    metavar="FILE",
    type=EXISTING_FILE,
    help="An earlier export; with it, lines cut off or rewritten since are detected.",
)
@formats
@journals
@common
def verify(*, anchored: pathlib.Path | None, output: Format, file: str | None) -> None:
    """Check that no line was changed, removed, inserted or moved.

    The exit code is 1 if a line was.

    \b
    Example:
      ripieno journal verify
      ripieno journal verify --anchor journal-2026-01.jsonl
    """
    anchor = Anchor() if anchored is None else read_anchor(anchored)
    with open_journal(file) as one:
        total = one.length()
        found = one.verify(anchor, progress=functools.partial(_show_progress, total) if sys.stderr.isatty() else None)
    if output == "json":
        mapping = None if found is None else {"number": found.number, "reason": found.reason}
        print_json({"file": one.name, "lines": total, "anchor": anchor.number, "break": mapping})
    elif found is None:
        limit = (
            f"The anchor covers lines up to {anchor.number}."
            if anchored
            else "To detect removed last lines, use --anchor."
        )
        click.echo(f"Verified {total} lines of {one.name}, none altered. ({limit})")
    else:
        where = "" if found.number is None else f", line {found.number}"
        click.echo(f"{one.name}{where}: {visible(found.reason)}")
    if found is not None:
        raise click.exceptions.Exit(exit_codes.REFUSED)


@journal.command()
@click.argument("conversation", required=False, shell_complete=complete_conversation)
@click.option("--at", "until", metavar="N", type=Number(min=1), help="The last message to copy.")
@formats
@owners
@journals
@common
def fork(*, conversation: str | None, owner: str | None, until: int | None, output: Format, file: str | None) -> None:
    """Copy a conversation, up to a message, into a new one.

    The new conversation is written to the journal, and its identifier is printed; with --format json, all of it.
    Without --at it has every message. Changes of tools are not undone: see ripieno undo.

    \b
    Example:
      ripieno journal fork 3f9a --at 7
      ripieno journal fork --format json > conversation.json
    """
    with open_journal(file) as one:
        summary = find_conversation(one, conversation, owner, conducted=True)
        forked = one.fork(summary.identifier, owner=summary.owner, until=until)
    if output == "json":
        print_json(serialize(forked))
    else:
        say(f"Copied {visible(summary.identifier)[:ABBREVIATED]} to {forked.identifier[:ABBREVIATED]}.")
        click.echo(forked.identifier)


@journal.command()
@click.argument("target", metavar="PLACE")
@formats
@journals
@common
def copy(*, target: str, output: Format, file: str | None) -> None:
    """Copy the journal to another place, and verify the copy.

    PLACE is a file, with a name that ends in .sqlite3 or as ./FILE, or the address of a database. Lines that are there
    already are skipped, so that a copy can be repeated; what was deleted since is deleted there, too. Paused
    conversations and approvals are copied. Stored responses and the queue of runs are not; kept outputs and undo are of
    one machine.

    \b
    Example:
      ripieno journal copy '{env:JOURNAL_URL}'
      ripieno journal copy --journal '{env:JOURNAL_URL}' backup.sqlite3
    """
    to = new_place(target)
    with open_journal(file) as one:
        if to == place_of(file):
            raise click.UsageError("The journal is already at this place. Name another one.")
        with Journal(to) as other:
            total = one.length()
            progress = functools.partial(_show_progress, total) if sys.stderr.isatty() else None
            copied = copy_journal(one, other, progress)
            found, end, lines = other.verify(), other.anchor(), other.length()
    if found is not None:
        raise InputError(
            f"The copy {other.name} is damaged, line {found.number}: {found.reason} Copy to another place."
        )
    if output == "json":
        print_json({"to": other.name, "copied": copied, "lines": lines, "anchor": dataclasses.asdict(end)})
    else:
        click.echo(f"Copied {count(copied, 'line')} to {other.name}. It is verified: none altered.")


def _show_progress(total: int, number: int) -> None:
    """Shows the progress of a long check on one line of standard error."""
    end = "\r" if number + 1000 <= total else "\r\033[K"
    print(f"{number} of {total} lines", end=end, file=sys.stderr, flush=True)


journal.add_command(delete)
