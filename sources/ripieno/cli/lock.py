"""``ripieno lock``: records what foreign tools are, and says later what has become of them."""

import pathlib
from collections.abc import Mapping

import click

from ripieno.assembly.configuration import Places
from ripieno.cli import exits
from ripieno.cli.assembling import gather_layers, make_assembly, require_ensembles
from ripieno.cli.locking import Look, foreign, look_at, mapping, sentences
from ripieno.cli.running import run_async
from ripieno.cli.settings import Format, Settings, common, formats, pass_settings
from ripieno.cli.tables import print_json
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import AssemblyFailure, InputError, NameAbsence
from ripieno.storage.pins import PinRecord, PinStore, read_pins, write_pins


@click.command()
@click.argument("ensembles", metavar="[ENSEMBLE]...", nargs=-1)
@click.option("--approve", is_flag=True, help="Record also what is not what was recorded, after showing it.")
@click.option(
    "--check", is_flag=True, help="Compare only, and write nothing; the exit code is 1 when anything differs."
)
@click.option(
    "--export",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Write what is recorded to a file that can be shared, such as ripieno.lock.toml; connects nothing.",
)
@click.option(
    "--forget", metavar="E", multiple=True, help="Delete what is recorded of this ensemble; connects nothing."
)
@formats
@common
@pass_settings
def lock(  # noqa: PLR0917  click names them
    settings: Settings,
    ensembles: tuple[str, ...],
    approve: bool,
    check: bool,
    export: pathlib.Path | None,
    forget: tuple[str, ...],
    output: Format,
) -> None:
    """Record what foreign tools are, and see what has changed.

    Ensembles that others define are connected: those that are named, or all that play. What is new is recorded, and
    which command starts the server; what is not what was recorded is shown, stays as it is recorded, and makes the
    exit code 1. What happens to such tools
    elsewhere is said by [ensemble] pin = "required", "warn" or "off".

    \b
    Example:
      ripieno lock
      ripieno lock github --check
      ripieno lock github --approve
      ripieno lock --export ripieno.lock.toml
    """
    if approve + check + (export is not None) + bool(forget) > 1:
        raise InputError("Only one of --approve, --check, --export and --forget can be done at a time.")
    store = PinStore(Places.of_user().state)
    if forget:
        _forget(store, (*ensembles, *forget))
    elif export is not None:
        _export(store, ensembles, export)
    elif not _compare(settings, store, ensembles, output, check=check, approve=approve):
        raise click.exceptions.Exit(exits.REFUSED)


def _compare(
    settings: Settings, store: PinStore, names: tuple[str, ...], output: Format, *, check: bool, approve: bool
) -> bool:
    """Whether everything is as it is recorded in the end. Errors: ``AssemblyFailure`` for what cannot be connected."""
    own = store.read()
    gathered = gather_layers(settings)
    if gathered.failures:
        raise AssemblyFailure("Start-up would fail:", gathered.failures)
    require_ensembles(gathered, names)
    descriptors = foreign(gathered, names)
    if strange := [name for name in names if name not in {one.name for one in descriptors}]:
        raise InputError(f"Ensemble {strange[0]!r} has no connection that could offer tools: there is nothing to pin.")
    surroundings = make_assembly(gathered).surroundings
    looks = run_async(look_at(descriptors, gathered, surroundings, approved=approve))
    records = {look.name: look.before if check else look.record(approved=approve) for look in looks}
    if changes := {look.name: records[look.name] for look in looks if records[look.name] != look.before}:
        store.replace(own, changes)
    if output == "json":
        print_json({"ensembles": [mapping(look, records[look.name]) for look in looks]})
    else:
        for look in looks:
            click.echo(clean("\n".join(sentences(look, recorded=not check, approved=approve))))
        if not looks:
            click.echo("No ensemble that plays is one that others define: there is nothing to pin.")
    failures = [look.failure for look in looks if look.failure is not None]
    if failures:
        raise AssemblyFailure("Not everything could be compared:", failures)
    return _good(looks, check=check, approve=approve)


def _good(looks: list[Look], *, check: bool, approve: bool) -> bool:
    if check:
        return all(look.comparison.same for look in looks)
    return approve or not any(look.refused for look in looks)


def _forget(store: PinStore, names: tuple[str, ...]) -> None:
    own = store.read()
    _require(own, names)
    store.replace(own, dict.fromkeys(names))
    click.echo(clean(f"Forgotten: {', '.join(dict.fromkeys(names))}."))


def _export(store: PinStore, names: tuple[str, ...], file: pathlib.Path) -> None:
    own = store.read()
    _require(own, names)
    chosen = {name: record for name, record in own.items() if not names or name in names}
    if not chosen:
        raise InputError("Nothing is recorded that could be shared. Record it first: ripieno lock")
    if file.exists():
        # What is no file of pins is somebody's work.
        read_pins(file.read_bytes(), str(file), "It is not overwritten: name another file, or delete it.")
    file.write_text(write_pins(chosen, shared=True), encoding="utf-8")
    click.echo(clean(f"Written to {file}: {', '.join(sorted(chosen))}. It counts for whoever trusts its folder."))


def _require(own: Mapping[str, PinRecord], names: tuple[str, ...]) -> None:
    for name in names:
        if name not in own:
            raise NameAbsence("record of an ensemble", name, own)
