"""``ripieno stats``: the tokens, calls, errors and times of the conversations in the journal."""

from collections.abc import Mapping
from typing import Literal

import click

from ripieno.approvals.visible_text import visible
from ripieno.canisters.display import count
from ripieno.cli.common.options import Format, common, formats
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.journal.selection import find_named, has_journal, journals, name_of, open_journal, owners, read_since
from ripieno.storage.journal import Statistics, Tally

#: The maximum number of rows for conversations and for unknown names.
_ROWS = 20
_HEADERS = ("TURNS", "CALLS", "ERRORS", "REFUSED", "INPUT", "CACHED", "OUTPUT", "MODEL TIME", "TOOL TIME")


@click.command()
@click.option("--since", metavar="WHEN", help="Only entries since then: 24h, 7d, or a date such as 2026-01-31.")
@click.option(
    "--by", type=click.Choice(("day", "model", "conversation")), help="Add a table by day, model or conversation."
)
@click.option("--conversation", metavar="C", help="Only this conversation, by the beginning of its identifier.")
@formats
@owners
@journals
@common
def stats(
    *,
    since: str | None,
    by: Literal["day", "model", "conversation"] | None,
    conversation: str | None,
    owner: str | None,
    output: Format,
    file: str | None,
) -> None:
    """Show the tokens, calls, errors and times of conversations.

    The sums include names of unknown tools that models called, denied calls, results from a cache, and attempts after
    the first.

    \b
    Example:
      ripieno stats
      ripieno stats --since 7d --by model
      ripieno stats --format json
    """
    start = "" if since is None else read_since(since)
    if not has_journal(file):
        found = Statistics()
    else:
        with open_journal(file) as one:
            named, whose = find_named(one, conversation, owner)
            found = one.statistics(since=start, conversation=named, owner=whose)
    if output == "json":
        print_json(found.mapping())
    elif not found.conversations:
        click.echo(f"Nothing has been recorded{'' if since is None else ' since then'} in {name_of(file)}.")
    else:
        _show(found, by)


def _show(found: Statistics, by: str | None) -> None:
    total = found.total
    parts = [f"{total.errors} failed", f"{total.denied} denied"]
    if others := total.refused - total.denied:
        parts.append(f"{others} refused for another reason")
    click.echo(
        f"{count(found.conversations, 'conversation')}, {count(total.turns, 'turn')}, "
        f"{count(total.calls, 'call')} "
        f"({', '.join(parts)})"
    )
    click.echo(
        f"Tokens: {total.input_tokens} input ({total.cache_read_tokens} of them from a provider's cache), "
        f"{total.output_tokens} output ({total.reasoning_tokens} of them reasoning)"
    )
    click.echo(f"Time: {_time(total.answering)} in models, {_time(total.running)} in tools")
    notes = {
        "needed approval": found.asked,
        "answered from a cache": total.cached,
        "attempts after the first": total.retries,
        "with an unknown outcome": found.unfinished,
        "without a time, as those of deleted conversations": total.calls - total.timed,
    }
    if noted := [f"{number} {note}" for note, number in notes.items() if number]:
        click.echo(f"Calls: {', '.join(noted)}")
    if found.categories:
        click.echo(f"Errors: {', '.join(f'{number} {visible(name)}' for name, number in found.categories.items())}")
    if found.tools:
        click.echo()
        _show_tools(found.tools)
    if found.unknown:
        click.echo()
        names = list(found.unknown.items())
        print_table(("UNKNOWN NAME", "CALLS"), [(visible(name), str(number)) for name, number in names[:_ROWS]])
        if len(names) > _ROWS:
            click.echo(f"and {len(names) - _ROWS} more")
    tables = {"day": found.days, "model": found.models, "conversation": found.by_conversation}
    if by is not None:
        click.echo()
        _show_tallies(by.upper(), tables[by])


def _show_tools(tools: Mapping[str, Tally]) -> None:
    rows = [
        (
            visible(name),
            *map(str, (one.calls, one.errors, one.refused, one.cached, one.retries)),
            _time(one.running),
            _time(one.running / one.timed) if one.timed else "-",
            _time(one.longest) if one.timed else "-",
        )
        for name, one in tools.items()
    ]
    headers = ("TOOL", "CALLS", "ERRORS", "REFUSED", "CACHED", "RETRIES", "TIME", "MEAN", "LONGEST")
    print_table(headers, rows)


def _show_tallies(kind: str, tallies: Mapping[str, Tally]) -> None:
    rows = [
        (
            visible(name)[:40],
            *map(str, (one.turns, one.calls, one.errors, one.refused)),
            *map(str, (one.input_tokens, one.cache_read_tokens, one.output_tokens)),
            _time(one.answering),
            _time(one.running),
        )
        for name, one in list(tallies.items())[:_ROWS]
    ]
    print_table((kind, *_HEADERS), rows)
    if len(tallies) > _ROWS:
        click.echo(f"and {len(tallies) - _ROWS} more")


def _time(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
