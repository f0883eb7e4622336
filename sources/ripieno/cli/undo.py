"""``ripieno undo``: undoes the changes of tools in a workspace, latest first."""

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterable, Sequence

import click

from ripieno.canisters.display import clean
from ripieno.cli.common import exit_codes
from ripieno.cli.common.layers import load_layers
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Format, Number, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.exceptions import InputError, ToolFault
from ripieno.storage.undo import Step, UndoEntry
from ripieno.toolset.workspace.undo import Undone, choose
from ripieno.toolset.workspace.undo import undo as take_back

_LISTED = 50


@click.command()
@click.argument("count", metavar="[N]", required=False, type=Number(min=1))
@click.option("--list", "listing", is_flag=True, help="List the last N changes (default 50), and undo none.")
@click.option("--to", "mark", metavar="MARK", help="Undo all changes since the tool checkpoint set this mark.")
@click.option("--skip", is_flag=True, help="Skip changes that cannot be undone, and list them.")
@formats
@common
@pass_settings
def undo(settings: Settings, count: int | None, *, listing: bool, mark: str | None, skip: bool, output: Format) -> None:
    """Undo the last N changes that tools made in the workspace.

    N is 1 by default. Only changes of the file tools are recorded, not those of programs. A change cannot be undone if
    something else has changed the file since, or if its earlier content was too large to record. Then nothing before it
    is undone either, and the exit code is 1.

    With --skip, such a change counts as one of the N and stays, and so do earlier changes of the same paths. Without N,
    the last change that can be undone is undone. The exit code is 1 if none was.

    \b
    Example:
      ripieno undo
      ripieno undo 3
      ripieno undo --list
      ripieno undo --skip
      ripieno undo --to before-refactoring
      ripieno undo --workspace ~/work/house --format json
    """
    if mark is not None and (count is not None or listing):
        raise click.UsageError("--to MARK cannot be combined with N or --list.")
    if skip and listing:
        raise click.UsageError("--skip cannot be combined with --list, which undoes nothing.")
    loaded = load_layers(settings, quiet=True)
    log = loaded.journal
    if log is None or not log.apart:
        raise InputError(
            f"Changes in {loaded.workspace} are not recorded: it contains your state folder, where tools could write. "
            "Set RIPIENO_STATE_HOME to another folder."
        )
    if listing:
        limit = count or _LISTED
        entries = [entry for entry, _ in zip(log.entries(), range(limit + 1), strict=False)]
        _show_list(entries[:limit], output)
        if len(entries) > limit:
            say(f"Showing the last {limit}. For more: ripieno undo --list {2 * limit}")
        return
    # Undo only the last change that can be undone.
    first = skip and count is None and mark is None
    entries = choose(log, sys.maxsize if first else count or 1, to=mark)
    if not entries and output == "table":
        click.echo(clean(f"There is nothing to undo in {log.workspace}."))
        raise click.exceptions.Exit(exit_codes.GOOD if mark else exit_codes.REFUSED)
    done: list[Undone] = []
    failure: ToolFault | None = None
    try:
        with contextlib.closing(take_back(log, loaded.workspace, entries, skip=skip)) as taken:
            _follow(taken, done, first=first, quiet=output == "json")
    except ToolFault as fault:
        failure = fault
    if output == "json":
        print_json({"undone": [_mapping(one) for one in done], "failure": None if failure is None else failure.message})
    if failure is not None:
        raise InputError(f"The undo stopped: {failure.message} Changes undone so far stay undone. Run it again.")
    barred = [one for one in done if one.refused]
    if output == "table" and barred and not skip:
        click.echo(clean(_skip_advice((count or 1) - len(done) + 1, mark, settings.given)))
    elif output == "table" and len(done) < (count or 1) and mark is None:
        click.echo(f"Undone: {len(done)} of {count}. No more changes are recorded.")
    # With a mark, there may be nothing to do. Skipped changes fail only if nothing else was undone.
    if (not done and mark is None) or (barred and (not skip or barred == done)):
        raise click.exceptions.Exit(exit_codes.REFUSED)


def _follow(taken: Iterable[Undone], done: list[Undone], *, first: bool, quiet: bool) -> None:
    """Undoes changes into ``done``, and shows them unless ``quiet``. With ``first``, stops after one success."""
    for one in taken:
        done.append(one)
        if not quiet:
            _show(one)
        if first and not one.refused:
            return


def _skip_advice(left: int, mark: str | None, options: Sequence[str]) -> str:
    """The next command after a refusal. ``left``: the remaining number of changes, including the refused one."""
    words = ["ripieno", "undo", "--skip", *options]
    if mark is not None:
        words += ["--to", mark]
    elif left > 1:
        words.append(str(left))
    return f"To skip it, and undo the changes before it: {shlex.join(words)}"


def _show_list(entries: Sequence[UndoEntry], output: Format) -> None:
    if output == "json":
        print_json({"changes": [{**dataclasses.asdict(entry), "kept": entry.kept} for entry in entries]})
        return
    if not entries:
        click.echo("There are no changes to undo.")
        return
    rows: list[tuple[str, ...]] = []
    number = 0
    for entry in entries:
        number += bool(entry.steps)
        what = _summary(entry.steps) if entry.steps else f"mark: {entry.label}"
        what += "" if entry.kept else " (cannot be undone: too large to record)"
        rows.append((str(number) if entry.steps else "", _time(entry), entry.cause.tool, what))
    print_table(("N", "TIME (UTC)", "TOOL", "CHANGED"), rows)


def _show(one: Undone) -> None:
    entry = one.entry
    if one.refused:
        click.echo(clean(f"Not undone: {entry.cause.tool}, {_time(entry)}. Nothing was changed:"))
        for reason in one.refused[:_LISTED]:
            click.echo(clean(f"  {reason}"))
        return
    click.echo(clean(f"Undone: {entry.cause.tool}, {_time(entry)}."))
    existed = _existed(entry.steps)
    for path in one.restored[:_LISTED]:
        click.echo(clean(f"  {'restored' if existed[path] else 'removed'}: {path}"))
    if len(one.restored) > _LISTED:
        click.echo(f"  and {len(one.restored) - _LISTED} more")
    if not one.restored:
        click.echo("  Nothing to restore: the files already have their earlier content.")


def _existed(steps: Sequence[Step]) -> dict[str, bool]:
    """Whether each path existed before the steps."""
    found: dict[str, bool] = {}
    for step in steps:
        if step.source:
            found.setdefault(step.source, True)
        found.setdefault(step.path, step.before is not None)
    return found


def _mapping(one: Undone) -> dict[str, object]:
    return {"entry": dataclasses.asdict(one.entry), "restored": list(one.restored), "refused": list(one.refused)}


def _time(entry: UndoEntry) -> str:
    return entry.time[:19].replace("T", " ")


def _summary(steps: Sequence[Step]) -> str:
    """``+ new, ~ changed, - deleted``: the first three paths, and the number of others."""
    words = [
        f"{one.source} > {one.path}"
        if one.source
        else f"{'+' if one.before is None else '-' if one.after is None else '~'} {one.path}"
        for one in steps
    ]
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return ", ".join(words[-3:] if steps[-1].after is None else words[:3]) + more
