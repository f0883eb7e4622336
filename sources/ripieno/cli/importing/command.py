"""``ripieno import``: ensembles out of what other programs were configured with, secrets left where they are."""

import dataclasses
import fnmatch
import json
import os
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ripieno.assembly.configuration import LoadedConfiguration, Places, load_configuration
from ripieno.cli.common import exit_codes
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json, print_table
from ripieno.cli.importing.ensembles import Made, Variables, make, propose_name
from ripieno.cli.importing.servers import ServerEntry, find_entries, parse, read_entry
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import InputError, NameAbsence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a file: ensembles with the files for them, and servers that were refused, with the reasons.

    ``there`` are names of ensembles that are there already.
    """

    made: tuple[tuple[pathlib.Path, Made], ...]
    refused: tuple[tuple[str, str], ...]
    there: tuple[str, ...] = ()


@click.group("import")
@common
def import_() -> None:
    """Make ensembles of what other programs were configured with.

    \b
    Example:
      ripieno import mcp ~/.cursor/mcp.json
    """


@import_.command(short_help="Make an ensemble of each MCP server in a client's JSON.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Where to write them, instead of your own folder of ensembles.",
)
@click.option("--only", metavar="NAME", multiple=True, help="Only this server; may be given again.")
@click.option(
    "--keep", metavar="NAME", multiple=True, help="Write this entry of env or headers as it is; may be given again."
)
@click.option("--force", is_flag=True, help="Replace ensembles that are there already.")
@click.option("--dry-run", is_flag=True, help="Print the TOML, and write nothing.")
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
    """Import MCP servers from another client's configuration.

    FILE is what an MCP client is configured with: mcpServers, servers or mcp.servers, with comments or without. Values
    of env and headers, and arguments that may be secrets, are not written: each becomes a variable, and the command
    prints which ones to set. FILE stays as it is. The exit code is 2 if a server is refused, or its ensemble exists;
    the others are imported.

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
    texts = {path: f"# Imported from {_quoted(file.name)}\n\n{one.text}" for path, one in outcome.made}
    if not dry_run:
        for path, text in texts.items():
            _write(path, text, force=force)
    if output == "json":
        print_json(_mapping(outcome, texts if dry_run else {}, dry_run=dry_run))
    elif dry_run:
        click.echo("\n".join(clean(f"# {path}\n{text}") for path, text in texts.items()), nl=False)
    else:
        _show(outcome)
    # What is printed as TOML or JSON goes to programs; this is for people.
    for line in _remarks(outcome, loaded, folder, named=into is not None, written=not dry_run):
        if output == "json" or dry_run:
            say(line)
        else:
            click.echo(clean(line))
    for name, reason in outcome.refused:
        say(f"Refused {name!r}: {reason}")
    if outcome.there:
        verb = "is" if len(outcome.there) == 1 else "are"
        say(f"{len(outcome.there)} {verb} there already: {', '.join(outcome.there)}; --force replaces them.")
    if outcome.refused or outcome.there:
        raise click.exceptions.Exit(exit_codes.INPUT)


def _read(file: pathlib.Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8. Save it as UTF-8 first.") from None


def _quoted(name: str) -> str:
    """A name that stays within one line of a comment."""
    return " ".join(clean(name).split())


def _choose(entries: Sequence[ServerEntry], only: Sequence[str]) -> Sequence[ServerEntry]:
    """Those that are wanted. Errors: ``NameAbsence`` for a name that no server has."""
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
    there: list[str] = []
    taken: dict[str, ServerEntry] = {}
    for entry in entries:
        try:
            server = read_entry(entry)
            same = next((name for name, other in taken.items() if _is_same(entry, other)), None)
            if same is not None:
                if same in made:
                    path, one = made[same]
                    twice = f"{entry.place}: it is the same server there, and written once"
                    made[same] = path, dataclasses.replace(one, notes=(*one.notes, twice))
                continue
            name, remark = _name(propose_name(entry.name), taken, loaded)
            path = folder / f"{name}.toml"
            one = make(server, name, entry.inputs, variables)
            if path.exists() and not force:
                there.append(name)
                taken[name] = entry
                continue
            _refuse_held(path, name, loaded, named=named)
        except InputError as error:
            refused.append((entry.name, str(error)))
            continue
        taken[name] = entry
        made[name] = path, dataclasses.replace(one, notes=(*remark, *one.notes))
    variables.check()
    return Outcome(made=tuple(made.values()), refused=tuple(refused), there=tuple(there))


def _is_same(entry: ServerEntry, other: ServerEntry) -> bool:
    return dataclasses.replace(entry, place="") == dataclasses.replace(other, place="")


def _name(proposed: str, taken: Mapping[str, ServerEntry], loaded: LoadedConfiguration) -> tuple[str, tuple[str, ...]]:
    """The ensemble's name, and what is to be said of it where it is another one than proposed."""
    name, why = proposed, ""
    holder = loaded.known.outlines.get(name)
    if holder is not None and (holder.layer == "package" or holder.layer.startswith("plugin ")):
        name = f"my-{name}"
        why = "a bundled ensemble" if holder.layer == "package" else f"an ensemble of the {holder.layer}"
    number, base = 1, name
    while name in taken:
        number += 1
        name, why = f"{base}-{number}", "another server of this file"
    return name, ((f"the name {proposed!r}: {why} has it, so this one is {name!r}",) if why else ())


def _refuse_held(path: pathlib.Path, name: str, loaded: LoadedConfiguration, *, named: bool) -> None:
    """Errors: ``InputError`` for an ensemble that another file has already."""
    holder = loaded.known.outlines.get(name)
    if holder is not None and not named and holder.file != str(path):
        where = holder.file or "the configuration"
        raise InputError(f"there is an ensemble {name!r} already, in {where}. Rename one of them.")


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
    return {"written": not dry_run, "ensembles": ensembles, "refused": refused, "there": list(outcome.there)}


def _show(outcome: Outcome) -> None:
    rows = [
        (one.server, one.ensemble, one.transport, str(path), ", ".join(one.variables) or "-")
        for path, one in outcome.made
    ]
    if rows:
        print_table(("server", "ensemble", "transport", "file", "variables"), rows)


def _remarks(
    outcome: Outcome, loaded: LoadedConfiguration, folder: pathlib.Path, *, named: bool, written: bool
) -> Iterator[str]:
    """What was left out, what is to be set and approved, and what comes next."""
    made = [one for _, one in outcome.made]
    notes = [f"  {one.ensemble}: {note}" for one in made for note in one.notes]
    if notes:
        yield "\nNot as it was, or left out:"
        yield from notes
    wanted: dict[str, list[str]] = {}
    for one in made:
        for name, what in one.variables.items():
            wanted.setdefault(name, []).append(one.ensemble if what == name else f"{one.ensemble} ({what})")
    if wanted:
        yield "\nSet these variables, whose values are not written:"
        yield from (f"  export {name}=   # for {', '.join(users)}" for name, users in wanted.items())
        yield "To write a value that is no secret into the file instead, import again with --keep NAME."
    allow = loaded.configuration.environment
    if allow is not None:
        lacking = [name for name in wanted if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allow)]
        if lacking:
            yield f"and add them to allow under [environment], which your configuration has: {', '.join(lacking)}"
    approve = [name for one in made for name in one.approve]
    if approve:
        yield "\nThese were called without asking. If that is what you want, write into your configuration:"
        yield f"  [confirmation]\n  approve = {json.dumps(approve, ensure_ascii=False)}"
    if made and written:
        yield from _next([one.ensemble for one in made], loaded, folder, named=named)


def _next(names: Sequence[str], loaded: LoadedConfiguration, folder: pathlib.Path, *, named: bool) -> Iterator[str]:
    enabled = loaded.configuration.enabled
    if named:
        yield f'\nTo play them, name their folder in a configuration: paths = ["{folder}"] under [ensembles].'
    elif enabled is not None and not set(names) <= set(enabled):
        yield f"\nYour configuration names what plays: add {', '.join(names)} to enabled under [ensembles]."
    check = shlex.join(["ripieno", "check", str(folder)]) if named else "ripieno check"
    yield f"\nNow try: {check}\n         ripieno tools -e {names[0]}"
