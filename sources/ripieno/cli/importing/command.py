"""``ripieno import``: ensembles from another client's configuration, without its secrets."""

import dataclasses
import fnmatch
import json
import os
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.availability import how_to_include
from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.canisters.display import clean
from ripieno.cli.common import exit_codes
from ripieno.cli.common.layers import owner_of
from ripieno.cli.common.main import say
from ripieno.cli.common.options import EXISTING_FILE, FOLDER, Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.importing.ensembles import Made, Variables, make, propose_name
from ripieno.cli.importing.servers import ServerEntry, find_entries, parse, read_entry
from ripieno.cli.tools.json_schema import SCHEMA_LINE, write_schema
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.exceptions import InputError, NameAbsence
from ripieno.storage.places import Places
from ripieno.values import Value


class Outcome(Value, kw_only=True):
    """The imported ensembles with their files, the refused servers with the reasons, and the existing ensembles."""

    made: tuple[tuple[pathlib.Path, Made], ...]
    refused: tuple[tuple[str, str], ...]
    existing: tuple[str, ...] = ()


@click.group("import")
@common
def import_() -> None:
    """Import MCP servers from another client's configuration.

    \b
    Example:
      ripieno import mcp ~/.cursor/mcp.json
    """


@import_.command()
@click.argument("file", type=EXISTING_FILE)
@click.option(
    "--into", metavar="DIR", type=FOLDER, help="The folder to write to, instead of your own ensembles folder."
)
@click.option("--only", metavar="NAME", multiple=True, help="Import only this server; may be repeated.")
@click.option(
    "--keep", metavar="NAME", multiple=True, help="Write this entry of env or headers as it is; may be repeated."
)
@click.option("--force", is_flag=True, help="Replace existing ensembles.")
@click.option("--dry-run", is_flag=True, help="Print the TOML, and write no file.")
@formats
@common
@pass_settings
def mcp(
    settings: Settings,
    file: pathlib.Path,
    into: pathlib.Path | None,
    *,
    only: tuple[str, ...],
    keep: tuple[str, ...],
    force: bool,
    dry_run: bool,
    output: Format,
) -> None:
    """Import the MCP servers in FILE, the JSON configuration of a client.

    FILE has mcpServers, servers or mcp.servers; comments are allowed. Values of env and headers, and arguments that may
    be secrets, are not written: each becomes a variable, and the command prints which ones to set. FILE stays as it is.
    The exit code is 2 if a server is refused or its ensemble exists; the others are imported. Also writes
    ensemble.schema.json, for editors that support "#:schema".

    \b
    Example:
      ripieno import mcp ~/.claude.json --dry-run
      ripieno import mcp .vscode/mcp.json --only github --keep LOG_LEVEL
    """
    loaded = load_configuration(settings.config)
    folder = (into or Places.of_user().configuration / "ensembles").absolute()
    try:
        entries = find_entries(parse(_read(file)))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    chosen = _choose(entries, only)
    variables = Variables(chosen, keep)
    outcome = _make_all(chosen, loaded, folder, variables, force=force, named=into is not None)
    one_line = " ".join(clean(file.name).split())
    texts = {path: f"{SCHEMA_LINE}# Imported from {one_line}\n\n{one.text}" for path, one in outcome.made}
    schema: list[str] = []
    if not dry_run:
        for path, text in texts.items():
            _write(path, text, force=force)
        schema = [write_schema(folder, loaded.registry)] if texts else []
    if output == "json":
        print_json(_mapping(outcome, texts if dry_run else {}, dry_run=dry_run))
    elif dry_run:
        click.echo("\n".join(clean(f"# {path}\n{text}") for path, text in texts.items()), nl=False)
    else:
        _show(outcome)
    # Remarks are for people: not on standard output beside TOML or JSON.
    for line in (*schema, *_remarks(outcome, loaded, folder, named=into is not None, written=not dry_run)):
        if output == "json" or dry_run:
            say(line)
        else:
            click.echo(clean(line))
    for name, reason in outcome.refused:
        say(f"Refused {name!r}: {reason}")
    if outcome.existing:
        say(f"Already exists: {', '.join(outcome.existing)}. To replace, use --force.")
    if outcome.refused or outcome.existing:
        raise click.exceptions.Exit(exit_codes.INPUT)


def _read(file: pathlib.Path) -> str:
    try:
        return read_regular(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8. Save it as UTF-8 first.") from None


def _choose(entries: Sequence[ServerEntry], only: Sequence[str]) -> Sequence[ServerEntry]:
    names = {entry.name for entry in entries}
    for name in only:
        if name not in names:
            raise NameAbsence("server", name, names)
    return [entry for entry in entries if not only or entry.name in only]


def _make_all(
    entries: Sequence[ServerEntry],
    loaded: LoadedConfiguration,
    folder: pathlib.Path,
    variables: Variables,
    *,
    force: bool,
    named: bool,
) -> Outcome:
    made: dict[str, tuple[pathlib.Path, Made]] = {}
    refused: list[tuple[str, str]] = []
    existing: list[str] = []
    taken: dict[str, ServerEntry] = {}
    for entry in entries:
        try:
            server = read_entry(entry)
            twins = (name for name, other in taken.items() if entry == dataclasses.replace(other, place=entry.place))
            same = next(twins, None)
            if same is not None:
                if same in made:
                    path, one = made[same]
                    twice = f"{entry.place}: the same server again, written once"
                    made[same] = path, dataclasses.replace(one, notes=(*one.notes, twice))
                continue
            name, remark = _name(propose_name(entry.name), taken, loaded)
            path = folder / f"{name}.toml"
            one = make(server, name, entry.inputs, variables)
            if path.exists() and not force:
                existing.append(name)
                taken[name] = entry
                continue
            _refuse_held(path, name, loaded, named=named)
        except InputError as error:
            refused.append((entry.name, str(error)))
            continue
        taken[name] = entry
        made[name] = path, dataclasses.replace(one, notes=(*remark, *one.notes))
    variables.check()
    return Outcome(made=tuple(made.values()), refused=tuple(refused), existing=tuple(existing))


def _name(proposed: str, taken: Mapping[str, ServerEntry], loaded: LoadedConfiguration) -> tuple[str, tuple[str, ...]]:
    """The ensemble's name, and a remark if it is not the proposed one."""
    name, why = proposed, ""
    if owner := owner_of(loaded, name):
        name, why = f"my-{name}", owner
    number, base = 1, name
    while name in taken:
        number += 1
        name, why = f"{base}-{number}", "another server of this file"
    return name, ((f"the name {proposed!r}: it belongs to {why}, so this one is {name!r}",) if why else ())


def _refuse_held(path: pathlib.Path, name: str, loaded: LoadedConfiguration, *, named: bool) -> None:
    """Errors: ``InputError`` for an ensemble that another file defines."""
    holder = loaded.known.outlines.get(name)
    if holder is not None and not named and holder.file != str(path):
        where = holder.file or "the configuration"
        raise InputError(f"the ensemble {name!r} already exists, in {where}. Rename one of them.")


def _write(path: pathlib.Path, text: str, *, force: bool) -> None:
    """Writes a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if force:
        path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _mapping(outcome: Outcome, texts: Mapping[pathlib.Path, str], *, dry_run: bool) -> Mapping[str, Any]:
    ensembles = [
        {
            "server": one.server,
            "ensemble": one.ensemble,
            "transport": one.transport,
            "file": str(path),
            "variables": dict(one.variables),
            "left_out": list(one.notes),
            "approve": list(one.approve),
            **({"toml": texts[path]} if path in texts else {}),
        }
        for path, one in outcome.made
    ]
    refused = [{"server": name, "reason": reason} for name, reason in outcome.refused]
    return {"written": not dry_run, "ensembles": ensembles, "refused": refused, "there": list(outcome.existing)}


def _show(outcome: Outcome) -> None:
    rows = [
        (one.server, one.ensemble, one.transport, str(path), ", ".join(one.variables) or "-")
        for path, one in outcome.made
    ]
    if rows:
        print_table(("SERVER", "ENSEMBLE", "TRANSPORT", "FILE", "VARIABLES"), rows)


def _remarks(
    outcome: Outcome, loaded: LoadedConfiguration, folder: pathlib.Path, *, named: bool, written: bool
) -> Iterator[str]:
    made = [one for _, one in outcome.made]
    notes = [f"  {one.ensemble}: {note}" for one in made for note in one.notes]
    if notes:
        yield "\nAssumed, changed or left out:"
        yield from notes
    wanted: dict[str, list[str]] = {}
    for one in made:
        for name, what in one.variables.items():
            wanted.setdefault(name, []).append(one.ensemble if what == name else f"{one.ensemble} ({what})")
    if wanted:
        yield "\nSet these variables; their values were not written:"
        yield from (f"  export {name}=   # for {', '.join(users)}" for name, users in wanted.items())
        yield "To write a value that is not secret to the file instead, import again with --keep NAME."
    allow = loaded.configuration.environment
    if allow is not None:
        lacking = [name for name in wanted if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allow)]
        if lacking:
            yield f"Add these to allow under [environment], which your configuration sets: {', '.join(lacking)}"
    approve = [name for one in made for name in one.approve]
    if approve:
        yield f"\nThe client called these without asking. To keep that, write in {Places.of_user().file}:"
        yield f"  [confirmation]\n  approve = {json.dumps(approve, ensure_ascii=False)}"
    if made and written:
        yield from _next([one.ensemble for one in made], loaded, folder, named=named)


def _next(names: Sequence[str], loaded: LoadedConfiguration, folder: pathlib.Path, *, named: bool) -> Iterator[str]:
    enabled = loaded.configuration.enabled
    if named:
        yield f'\nTo enable them, add their folder: paths = ["{folder}"] under [ensembles], in {Places.of_user().file}.'
    elif enabled is not None and not set(names) <= set(enabled):
        yield f"\n{how_to_include(*names)}"
    if named:
        yield f"\nNow try: {shlex.join(['ripieno', 'check', str(folder)])}"
    else:
        yield f"\nNow try: ripieno check\n         ripieno tools -e {names[0]}"
