"""``ripieno undo``: takes back what tools have changed in a workspace, latest first."""

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterable, Sequence

import click

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import load_layers
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import InputError, ToolFault
from ripieno.storage.undo import Step, UndoEntry, UndoLog
from ripieno.toolset.workspace.undo import Undone, choose
from ripieno.toolset.workspace.undo import undo as take_back

_LISTED = 50


@click.command()
@click.argument("count", metavar="[N]", required=False, type=click.IntRange(min=1))
@click.option("--list", "listing", is_flag=True, help="List the last changes, 50 unless N says otherwise; undo none.")
@click.option("--to", "mark", metavar="MARK", help="Undo all changes since this mark was set by the tool checkpoint.")
@click.option("--skip", is_flag=True, help="Pass over changes that cannot be taken back, and say which.")
@formats
@common
@pass_settings
def undo(settings: Settings, count: int | None, *, listing: bool, mark: str | None, skip: bool, output: Format) -> None:
    """Take back the last N changes that tools made in the workspace.

    Without N it is the last one. Only what the file tools changed is known; what programs did is not. A change is
    refused, and nothing before it is taken back, where something else has changed since what it changed, or where
    what was there was too large to be kept; the exit code is 1 then.

    With --skip such a change is one of the N, stays, and those before it are taken back, but for changes of the same
    paths. Without N, the last one that can be taken back is. The exit code is 1 when none was.

    \b
    Example:
      ripieno undo
      ripieno undo 3
      ripieno undo --list
      ripieno undo --skip
      ripieno undo --to before-refactoring
      ripieno --workspace ~/work/house undo --format json
    """
    if mark is not None and (count is not None or listing):
        raise click.UsageError("Give --to MARK alone, without N and --list.")
    if skip and listing:
        raise click.UsageError("Give --skip without --list, which undoes nothing.")
    loaded = load_layers(settings, quiet=True)
    journal = _journal(loaded)
    if listing:
        _show_list([entry for entry, _ in zip(journal.entries(), range(count or _LISTED), strict=False)], output)
        return
    # Without a number, it is the last one that can be taken back, wherever that is.
    first = skip and count is None and mark is None
    entries = choose(journal, sys.maxsize if first else count or 1, to=mark)
    if not entries and output == "table":
        click.echo(clean(f"There is nothing to undo in {journal.workspace}."))
        raise click.exceptions.Exit(exit_codes.GOOD if mark else exit_codes.REFUSED)
    done: list[Undone] = []
    failure: ToolFault | None = None
    try:
        with contextlib.closing(take_back(journal, loaded.workspace, entries, skip=skip)) as taken:
            _follow(taken, done, first=first, quiet=output == "json")
    except ToolFault as fault:
        failure = fault
    if output == "json":
        print_json({"undone": [_mapping(one) for one in done], "failure": None if failure is None else failure.message})
    if failure is not None:
        raise InputError(f"It could not be finished: {failure.message} What was done stays; run it again.")
    barred = [one for one in done if one.refused]
    if output == "table" and barred and not skip:
        click.echo(clean(_way((count or 1) - len(done) + 1, mark)))
    elif output == "table" and len(done) < (count or 1) and mark is None:
        click.echo(f"There were only {len(done)}.")
    # With a mark, there may be nothing to do; passing over is what was asked for, unless nothing else was done.
    if (not done and mark is None) or (barred and (not skip or barred == done)):
        raise click.exceptions.Exit(exit_codes.REFUSED)


def _follow(taken: Iterable[Undone], done: list[Undone], *, first: bool, quiet: bool) -> None:
    """Shows what is taken back, unless it is to be quiet, and notes it; with ``first``, until something was."""
    for one in taken:
        done.append(one)
        if not quiet:
            _show(one)
        if first and not one.refused:
            return


def _way(left: int, mark: str | None) -> str:
    """How to go on after a refusal, when so many were wanted with the one that was refused."""
    words = ["ripieno undo --skip"]
    if mark is not None:
        words += ["--to", shlex.quote(mark)]
    elif left > 1:
        words.append(str(left))
    return f"To pass over it, and take back what was changed before: {' '.join(words)}"


def _journal(loaded: LoadedConfiguration) -> UndoLog:
    """The journal of the workspace. Errors: ``InputError`` when nothing can be kept there."""
    journal = loaded.journal
    if journal is None or not journal.apart:
        raise InputError(
            f"Changes in {loaded.workspace} are not kept: your state folder lies in it, where tools could write. "
            "Name another one: RIPIENO_STATE_HOME."
        )
    return journal


def _show_list(entries: Sequence[UndoEntry], output: Format) -> None:
    if output == "json":
        print_json({"changes": [{**dataclasses.asdict(entry), "kept": entry.kept} for entry in entries]})
        return
    if not entries:
        click.echo("Tools have changed nothing here that could be undone.")
        return
    rows: list[tuple[str, ...]] = []
    number = 0
    for entry in entries:
        number += bool(entry.steps)
        what = _summary(entry.steps) if entry.steps else f"mark: {entry.label}"
        what += "" if entry.kept else " (cannot be undone: too large to be kept)"
        rows.append((str(number) if entry.steps else "", _time(entry), entry.cause.tool, what))
    print_table(("N", "TIME", "TOOL", "CHANGED"), rows)


def _show(one: Undone) -> None:
    entry = one.entry
    if one.refused:
        click.echo(clean(f"Refused: {entry.cause.tool}, {_time(entry)}. Nothing of it was touched:"))
        for reason in one.refused[:_LISTED]:
            click.echo(clean(f"  {reason}"))
        return
    click.echo(clean(f"Undone: {entry.cause.tool}, {_time(entry)}."))
    for path in one.restored[:_LISTED]:
        click.echo(clean(f"  {path}"))
    if len(one.restored) > _LISTED:
        click.echo(f"  and {len(one.restored) - _LISTED} more")
    if not one.restored:
        click.echo("  Everything was as before already.")


def _mapping(one: Undone) -> dict[str, object]:
    return {"entry": dataclasses.asdict(one.entry), "restored": list(one.restored), "refused": list(one.refused)}


def _time(entry: UndoEntry) -> str:
    return entry.time[:19].replace("T", " ")


def _summary(steps: Sequence[Step]) -> str:
    """``+ new, ~ changed, - deleted``: the first paths, and how many more there are."""
    words = [
        f"{one.source} > {one.path}"
        if one.source
        else f"{'+' if one.before is None else '-' if one.after is None else '~'} {one.path}"
        for one in steps
    ]
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[-3:] if steps[-1].after is None else words[:3]) + more
