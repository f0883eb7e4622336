"""``ripieno lock``: records the definitions of third-party tools, and shows later differences."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import click
from frozendict import frozendict

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.plugins import Registry
from ripieno.canisters.display import clean, count
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_connected
from ripieno.cli.common.layers import load_valid_layers, require_ensembles
from ripieno.cli.common.main import run_async
from ripieno.cli.common.options import FILE, Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import print_json
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.ensembles import Ensemble, Opened, Origin, Surroundings
from ripieno.ensembles.origin import check_tables, pin_programs
from ripieno.exceptions import AssemblyFailure, ConfigurationInvalidity, InputError, NameAbsence, RipienoError
from ripieno.storage.pins import (
    Comparison,
    Pin,
    PinRecord,
    PinStore,
    compare,
    pin_tools,
    read_pins,
    show_difference,
    write_pins,
)
from ripieno.storage.places import Places
from ripieno.values import Value


class Look(Value, kw_only=True):
    """One ensemble: the record, the current state, and the differences.

    ``started`` is false if its command differs from the record, so that its tools are unknown; ``failure`` is the error
    that prevented a comparison.
    """

    name: str
    before: PinRecord | None
    after: PinRecord = PinRecord()
    comparison: Comparison = Comparison()
    started: bool = True
    failure: RipienoError | None = None

    @property
    def refused(self) -> bool:
        """Whether something differs from the record, so that the user must approve it."""
        return bool(self.comparison.changed) or self.comparison.command in ("changed", "gone")

    def record(self, *, approved: bool) -> PinRecord | None:
        """The new record: with all new tools, and with changed and removed ones if approved."""
        if self.failure is not None or not self.started or (self.before is None and self.after == PinRecord()):
            return self.before
        if approved or self.before is None:
            return self.after
        tools = {**self.after.tools, **self.before.tools}
        command = self.after.command if self.comparison.command == "same" else self.before.command
        return PinRecord(tools=frozendict(tools), command=command)

    def differences(self) -> dict[str, list[str]]:
        """A diff for each thing that differs, by its name. Empty for a first record."""
        if self.before is None:
            return {}
        pairs: dict[str, tuple[Pin | None, Pin | None]] = {}
        if self.comparison.command != "same":
            pairs["command"] = (self.before.command, self.after.command)
        for name in (*self.comparison.changed, *self.comparison.new):
            pairs[f"{self.name}.{name}"] = (self.before.tools.get(name), self.after.tools[name])
        titles = {"command": f"command of {self.name}"}
        shown = {what: show_difference(titles.get(what, what), *pair) for what, pair in pairs.items()}
        return {what: lines for what, lines in shown.items() if lines}


def is_foreign(descriptor: EnsembleDescriptor) -> bool:
    """Whether a third party defines its tools. Connections of Python functions offer none themselves."""
    return descriptor.connection is not None and descriptor.connection.origin != "python"


def pin_connection(descriptor: EnsembleDescriptor, registry: Registry) -> Pin | None:
    """The pin of the programs that the connection of an ensemble starts.

    Errors: ``ConfigurationInvalidity`` for settings that its origin refuses; those of ``Registry.resolve``.
    """
    if descriptor.connection is None:
        return None
    origin: Origin = registry.resolve("origins", descriptor.connection.origin)
    if problems := check_tables(origin, descriptor):
        raise ConfigurationInvalidity(locate(problems))
    return pin_programs(origin, descriptor)


async def look_at(
    descriptors: Iterable[EnsembleDescriptor],
    loaded: LoadedConfiguration,
    surroundings: Surroundings,
    *,
    approved: bool,
) -> list[Look]:
    """Connects all at once, and disconnects. Starts a command that differs from the record only if approved."""
    return await asyncio.gather(*(_look(one, loaded, surroundings, approved) for one in descriptors))


async def _look(
    descriptor: EnsembleDescriptor, loaded: LoadedConfiguration, surroundings: Surroundings, approved: bool
) -> Look:
    name = descriptor.name
    before = None if loaded.pins is None else loaded.pins.record(name)
    try:
        command = pin_connection(descriptor, loaded.registry)
        if not approved and before is not None and before.command != command:
            after = PinRecord(tools=before.tools, command=command)
            return Look(name=name, before=before, after=after, comparison=compare(before, after), started=False)
        found = await _discover(descriptor, loaded, surroundings)
        after = PinRecord(tools=pin_tools(descriptor, found), command=command)
    except RipienoError as error:
        return Look(name=name, before=before, failure=error)
    return Look(name=name, before=before, after=after, comparison=compare(before, after))


async def _discover(
    descriptor: EnsembleDescriptor, loaded: LoadedConfiguration, surroundings: Surroundings
) -> tuple[InvokerDescriptor, ...]:
    """All tools that a connection offers, before overrides."""
    connection = descriptor.connection
    if connection is None:
        return ()
    origin: Origin = loaded.registry.resolve("origins", connection.origin)
    found: list[InvokerDescriptor] = []

    @contextlib.asynccontextmanager
    async def open_origin() -> AsyncGenerator[Opened, None]:
        async with origin.open(descriptor, surroundings) as connected:
            found.extend(connected.definitions)
            yield Opened(connection=None, definitions=())

    async with Ensemble(descriptor.name, opener=open_origin, recovery=None):
        return tuple(found)


def describe(look: Look, *, recorded: bool, approved: bool) -> list[str]:
    """The text about one ensemble, with its diffs; ``recorded``: whether the record was updated."""
    if look.failure is not None:
        return [f"{look.name}: not compared, because the connection failed."]
    new, changed, gone = look.comparison.new, look.comparison.changed, look.comparison.gone
    if look.before is None:
        if look.after == PinRecord():
            return [f"{look.name}: no tools to pin."]
        return [
            f"{look.name}: {count(len(new), 'tool')} {'recorded' if recorded else 'not recorded yet'}: {', '.join(new)}"
        ]
    if look.comparison.same:
        return [f"{look.name}: unchanged, {count(len(look.after.tools), 'tool')}."]
    lines = [f"{look.name}:"]
    kept = "" if not recorded else ", approved now" if approved else ", not recorded"
    if look.comparison.command != "same":
        lines.append(
            f"  the command is {look.comparison.command}{kept}{'' if look.started else '; it was not started'}"
        )
    lines += [f"  changed{kept}: {', '.join(changed)}"] if changed else []
    lines += [f"  new{', recorded' if recorded else ''}: {', '.join(new)}"] if new else []
    lines += [f"  gone{', deleted' if recorded and approved else ''}: {', '.join(gone)}"] if gone else []
    for one in look.differences().values():
        lines += ["", *one]
    if look.refused and not approved:
        lines += ["", f"To approve this: ripieno lock --approve {look.name}"]
    return lines


def mapping(look: Look, record: PinRecord | None) -> dict[str, Any]:
    """The comparison as JSON. ``recorded``: whether the record has the current state."""
    comparison = look.comparison
    differences: Mapping[str, Sequence[str]] = look.differences()
    return {
        "ensemble": look.name,
        "tools": sorted(look.after.tools),
        "new": list(comparison.new),
        "changed": list(comparison.changed),
        "gone": list(comparison.gone),
        "command": comparison.command,
        "started": look.started,
        "recorded": look.failure is None and record == look.after,
        "differences": {name: "\n".join(lines) for name, lines in differences.items()},
        "failure": None if look.failure is None else str(look.failure),
    }


@click.command()
@click.argument("ensembles", metavar="[ENSEMBLE]...", nargs=-1, shell_complete=complete_connected)
@click.option("--approve", is_flag=True, help="Show changed and removed tools, and record them as well.")
@click.option("--check", is_flag=True, help="Only compare; the exit code is 1 if anything differs.")
@click.option(
    "--export",
    metavar="FILE",
    type=FILE,
    help="Write the pins to a file to share, such as ripieno.lock.toml; connects nothing.",
)
@click.option("--forget", metavar="E", multiple=True, help="Delete the pins of this ensemble; connects nothing.")
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
    """Pin the definitions of third-party tools, and show what has changed.

    Connects the named third-party ensembles, or all enabled ones. Records new tools, and the commands that start
    servers. Changed tools are shown and not recorded, and the exit code is 1. Whether they can be called is decided by
    [ensemble] pin = "required", "warn" or "off".

    \b
    Example:
      ripieno lock
      ripieno lock github --check
      ripieno lock github --approve
      ripieno lock --export ripieno.lock.toml
    """
    if approve + check + (export is not None) + bool(forget) > 1:
        raise InputError("Give only one of --approve, --check, --export and --forget.")
    store = PinStore(Places.of_user().state)
    if forget:
        _forget(store, (*ensembles, *forget))
    elif export is not None:
        _export(store, ensembles, export)
    elif not _compare(settings, store, ensembles, output, check=check, approve=approve):
        raise click.exceptions.Exit(exit_codes.REFUSED)


def _compare(
    settings: Settings, store: PinStore, names: tuple[str, ...], output: Format, *, check: bool, approve: bool
) -> bool:
    """Whether everything is recorded in the end. Errors: ``AssemblyFailure`` for failed connections; ``InputError``."""
    own = store.read()
    loaded = load_valid_layers(settings)
    require_ensembles(loaded, names)
    untrusted = [one.name for one in loaded.left_out if one.reason.endswith("run: ripieno trust")]
    if check and not names and untrusted:
        # Success would mean that all was compared.
        raise InputError(
            f"Not everything could be compared: {', '.join(dict.fromkeys(untrusted))} of this folder is not trusted. "
            "Review its files, then run: ripieno trust"
        )
    # Without names, all that are not exempt from pins.
    selected = [one for one in loaded.ensembles if (one.name in names if names else one.pin != "off")]
    descriptors = [one for one in selected if is_foreign(one)]
    if unknown := [name for name in names if name not in {one.name for one in descriptors}]:
        raise InputError(f"Nothing to pin: the ensemble {unknown[0]!r} has no connection that offers tools.")
    surroundings = make_assembly(loaded).surroundings
    looks = run_async(look_at(descriptors, loaded, surroundings, approved=approve))
    records = {look.name: look.before if check else look.record(approved=approve) for look in looks}
    if changes := {look.name: records[look.name] for look in looks if records[look.name] != look.before}:
        store.replace(own, changes)
    if output == "json":
        print_json({"ensembles": [mapping(look, records[look.name]) for look in looks]})
    else:
        for look in looks:
            click.echo(clean("\n".join(describe(look, recorded=not check, approved=approve))))
        if not looks:
            click.echo("Nothing to pin: no third-party ensemble is enabled.")
    failures = [look.failure for look in looks if look.failure is not None]
    if failures:
        raise AssemblyFailure("Not everything could be compared:", failures)
    if check:
        return all(look.comparison.same for look in looks)
    return approve or not any(look.refused for look in looks)


def _forget(store: PinStore, names: tuple[str, ...]) -> None:
    own = store.read()
    _require(own, names)
    store.replace(own, dict.fromkeys(names))
    click.echo(clean(f"Deleted the pins of {', '.join(dict.fromkeys(names))}."))


def _export(store: PinStore, names: tuple[str, ...], file: pathlib.Path) -> None:
    own = store.read()
    _require(own, names)
    chosen = {name: record for name, record in own.items() if not names or name in names}
    if not chosen:
        raise InputError("There are no pins to share. To record some: ripieno lock")
    if file.exists():
        # Only a file of pins is overwritten.
        read_pins(read_regular(file), str(file), "It is not overwritten: name another file, or delete it.")
    file.write_text(write_pins(chosen, shared=True), encoding="utf-8")
    click.echo(
        clean(f"Written to {file}: {', '.join(sorted(chosen))}. It applies for every user who trusts its folder.")
    )


def _require(own: Mapping[str, PinRecord], names: tuple[str, ...]) -> None:
    for name in names:
        if name not in own:
            raise NameAbsence("record of an ensemble", name, own)
