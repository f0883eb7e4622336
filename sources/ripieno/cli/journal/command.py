"""``ripieno journal``: what was said and done in conversations, found again, shown, checked, forked and deleted."""

import pathlib
import sys

import click

from ripieno.approvals.visible_text import visible
from ripieno.assembly.configuration import Places
from ripieno.canisters.serialization import serialize
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Format, common, formats
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.journal.selection import chosen, journals, opened, place_of, read_since
from ripieno.cli.journal.transcript import excerpt, heading, moment, transcript
from ripieno.conducting.observers.console import brief
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import InputError
from ripieno.storage.files import open_private
from ripieno.storage.journal import Anchor, Journal, Summary, anchor_line, read_anchor
from ripieno.storage.journal.lines import says
from ripieno.storage.outputs import Outputs

#: Characters of an identifier that tables show.
_ABBREVIATED = 12


@click.group()
@common
def journal() -> None:
    """Find, show, check, fork and delete what was said and done in conversations.

    A CONVERSATION is named by the beginning of its identifier; without one, it is the one that was written to last.

    \b
    Example:
      ripieno journal list
      ripieno journal show
      ripieno journal verify
    """


@journal.command("list", short_help="List the conversations, the latest first.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@formats
@journals
@common
def list_(*, limit: int, everything: bool, output: Format, file: pathlib.Path | None) -> None:
    """List the conversations, the latest first.

    \b
    Example:
      ripieno journal list
      ripieno journal list --all --format json
    """
    path = place_of(file)
    if file is None and not path.exists():
        summaries: list[Summary] = []
    else:
        with opened(file) as one:
            summaries = list(one.conversations(limit=None if everything else limit))
    if output == "json":
        print_json([summary.mapping() for summary in summaries])
        return
    if not summaries:
        click.echo(f"Nothing was recorded yet in {path}.")
        return
    rows = [
        (
            visible(one.identifier)[:_ABBREVIATED],
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


@journal.command(short_help="Show a conversation, with what became of its calls.")
@click.argument("conversation", required=False)
@click.option("--full", is_flag=True, help="All of each message, however long.")
@formats
@journals
@common
def show(*, conversation: str | None, full: bool, output: Format, file: pathlib.Path | None) -> None:
    """Show a conversation, with what became of its calls.

    Control characters are shown as escapes. The numbers of messages are those of: ripieno journal fork --at

    \b
    Example:
      ripieno journal show
      ripieno journal show 3f9a --full
    """
    with opened(file) as one:
        summary = chosen(one, conversation)
        lines = one.lines(summary.identifier)
        if output == "json":
            print_json({"conversation": summary.mapping(), "lines": [line.mapping() for line in lines]})
            return
        click.echo(heading(summary))
        for text in transcript(lines, whole=full):
            click.echo(text)


@journal.command(short_help="Find a text in what was recorded.")
@click.argument("text")
@click.option("--conversation", metavar="C", help="Only in this conversation.")
@click.option("--tool", metavar="ENSEMBLE.TOOL", help="Only in what became of calls of this tool.")
@click.option("--stage", metavar="STAGE", help="Only in lines of this stage, such as said or finished.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many lines at most.")
@formats
@journals
@common
def search(
    *,
    text: str,
    conversation: str | None,
    tool: str | None,
    stage: str | None,
    limit: int,
    output: Format,
    file: pathlib.Path | None,
) -> None:
    """Find a text in what was recorded. The exit code is 1 when it stands nowhere.

    \b
    Example:
      ripieno journal search README.rst
      ripieno journal search "rm -rf" --tool execution.run_command --stage started
    """
    if not text:
        raise click.UsageError("There is nothing to look for.")
    with opened(file) as one:
        named = None if conversation is None else chosen(one, conversation).identifier
        lines = list(one.lines(named, stage=stage, tool=tool, text=text, limit=limit))
    if output == "json":
        print_json([line.mapping() for line in lines])
    elif lines:
        rows = [
            (
                visible(line.conversation)[:_ABBREVIATED],
                str(line.number),
                moment(line.at),
                line.stage,
                visible(line.tool),
                excerpt(says(line, text) or text, text),
            )
            for line in lines
        ]
        print_table(("CONVERSATION", "LINE", "TIME (UTC)", "STAGE", "TOOL", "TEXT"), rows)
        if len(lines) == limit:
            say(f"These are the first {limit}; --limit shows more.")
    if not lines:
        say("It stands nowhere.")
        raise click.exceptions.Exit(exit_codes.REFUSED)


@journal.command(short_help="Write everything, or a conversation, as JSONL, with an anchor on the last line.")
@click.argument("conversation", required=False)
@click.option(
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Where to write it, instead of standard output. It must not be there yet.",
)
@journals
@common
def export(*, conversation: str | None, target: pathlib.Path | None, file: pathlib.Path | None) -> None:
    """Write everything, or a conversation, as JSONL, with an anchor on the last line.

    The anchor says how far the journal had come. Kept where whoever can write the journal cannot, it lets verify find
    lines that were cut off, or written anew. Without a CONVERSATION, everything is written.

    \b
    Example:
      ripieno journal export --output journal-2026-01.jsonl
      ripieno journal export 3f9a > conversation.jsonl
    """
    with opened(file) as one:
        named = None if conversation is None else chosen(one, conversation).identifier
        anchor = one.anchor()
        if target is None:
            for text in one.export(named):
                sys.stdout.write(text)
            sys.stdout.write(anchor_line(anchor))
            return
        try:
            with open(target, "x", encoding="ascii", opener=open_private) as written:
                written.writelines(one.export(named))
                written.write(anchor_line(anchor))
        except FileExistsError:
            raise InputError(f"{target} is there already, and is not overwritten. Name another file.") from None
    say(f"Written to {target}, up to line {anchor.number}.")


@journal.command(short_help="Check that no line was changed, dropped, put in or moved.")
@click.option(
    "--anchor",
    "told",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="An earlier export: what was cut off or written anew since is found, too.",
)
@formats
@journals
@common
def verify(*, told: pathlib.Path | None, output: Format, file: pathlib.Path | None) -> None:
    """Check that no line was changed, dropped, put in or moved. The exit code is 1 when one was.

    \b
    Example:
      ripieno journal verify
      ripieno journal verify --anchor journal-2026-01.jsonl
    """
    anchor = Anchor() if told is None else read_anchor(told)
    with opened(file) as one:
        end = one.anchor()
        found = one.verify(anchor, progress=_progress(end.number) if sys.stderr.isatty() else None)
    if output == "json":
        mapping = None if found is None else {"number": found.number, "reason": found.reason}
        print_json({"file": str(one.path), "lines": end.number, "anchor": anchor.number, "break": mapping})
    elif found is None:
        known = (
            f"up to line {anchor.number} by its anchor" if told else "but for lines cut off at the end (see --anchor)"
        )
        click.echo(f"All {end.number} lines of {one.path} are as they were written, {known}.")
    else:
        where = "" if found.number is None else f", line {found.number}"
        click.echo(f"{one.path}{where}: {visible(found.reason)}")
    if found is not None:
        raise click.exceptions.Exit(exit_codes.REFUSED)


@journal.command(short_help="Go on from a message of a conversation, in a new one.")
@click.argument("conversation", required=False)
@click.option("--at", "until", metavar="N", type=click.IntRange(min=1), help="The last message that is kept.")
@formats
@journals
@common
def fork(*, conversation: str | None, until: int | None, output: Format, file: pathlib.Path | None) -> None:
    """Go on from a message of a conversation, in a new one.

    The new conversation is written into the journal, and its identifier is printed; with --format json, all of it is.
    Without --at it has everything. What tools changed is not taken back: see ripieno undo.

    \b
    Example:
      ripieno journal fork 3f9a --at 7
      ripieno journal fork --format json > conversation.json
    """
    with opened(file) as one:
        summary = chosen(one, conversation)
        forked = one.fork(summary.identifier, until=until)
    if output == "json":
        print_json(serialize(forked))
    else:
        click.echo(forked.identifier)


@journal.command(short_help="Delete what was said in conversations; that there were such lines stays provable.")
@click.argument("conversations", metavar="[CONVERSATION]...", nargs=-1)
@click.option("--older-than", metavar="AGE", help="Those that nothing was written to for so long, such as 90d.")
@click.option("--yes", is_flag=True, help="Do not ask first.")
@journals
@common
def delete(*, conversations: tuple[str, ...], older_than: str | None, yes: bool, file: pathlib.Path | None) -> None:
    """Delete what was said in conversations; that there were such lines stays provable.

    The text is overwritten in the file, and cannot be had again. Times, tools and digests stay, so that verify holds.

    \b
    Example:
      ripieno journal delete 3f9a
      ripieno journal delete --older-than 90d --yes
    """
    if bool(conversations) == (older_than is not None):
        raise click.UsageError("Name conversations, or give --older-than.")
    with opened(file) as one:
        if older_than is None:
            victims = [one.find(name) for name in dict.fromkeys(conversations)]
        else:
            before = read_since(older_than)
            victims = [summary for summary in one.conversations() if summary.last < before and not summary.deleted]
        if not victims:
            click.echo("There is none.")
            return
        if not yes:
            _agree(victims)
        for summary in victims:
            _delete(one, summary)


def _agree(victims: list[Summary]) -> None:
    """Asks first. Errors: ``click.UsageError`` where nobody is there to answer, ``click.Abort``."""
    for summary in victims[:20]:
        say(f"{visible(summary.identifier)}  {moment(summary.last)}  {brief(summary.words, 60)}")
    if not sys.stdin.isatty():
        raise click.UsageError("It cannot be taken back. Give --yes to delete without being asked.")
    click.confirm(f"Delete what was said in {len(victims)} of them? It cannot be taken back", abort=True, err=True)


def _delete(one: Journal, summary: Summary) -> None:
    """Deletes the bodies, what waits for an answer, and what was too long to be shown."""
    began = [line.record for line in one.lines(summary.identifier, stage="began")]
    folders = {record.details.get("workspace") for record in began if record is not None}
    bodies = one.delete(summary.identifier)
    state = Places.of_user().state
    PausedStore(state).forget(summary.identifier)
    for folder in filter(None, folders):
        Outputs(state, pathlib.Path(folder)).forget(summary.identifier)
    click.echo(f"Deleted: {visible(summary.identifier)}, {bodies} lines.")


class _Told:
    """How far a long check is, on one line of standard error."""

    def __init__(self, total: int) -> None:
        self._total = total

    def __call__(self, number: int) -> None:
        end = "\r" if number + 1000 <= self._total else "\r\033[K"
        print(f"{number} of {self._total} lines", end=end, file=sys.stderr, flush=True)


def _progress(total: int) -> _Told:
    return _Told(total)
