"""``ripieno tools`` and ``ripieno ensembles``: the offered tools, and all ensembles."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import click
from frozendict import frozendict

from ripieno.approvals.rules import Outlook, expect
from ripieno.assembly.availability import absence, how_to_include, is_available
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.ensembles import ConnectedEnsembles
from ripieno.canisters.controls import Rules
from ripieno.canisters.display import clean
from ripieno.cli.common.completion import complete_ensemble
from ripieno.cli.common.ensembles import make_ensembles
from ripieno.cli.common.layers import left_out_mappings, load_layers, load_valid_layers, select_ensembles
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import described, print_json, print_table
from ripieno.cli.common.wires import protocols
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer

#: The column ASKS, by the action of a rule.
_ASKS = {"run": "no", "ask": "yes", "deny": "denied", "depends": "depends"}


@click.command()
@click.option(
    "--ensemble",
    "-e",
    "names",
    metavar="E",
    multiple=True,
    shell_complete=complete_ensemble,
    help="List only the tools of this ensemble.",
)
@click.option("--all", "everything", is_flag=True, help="List unavailable tools as well, with the reasons.")
@protocols("List what this wire format sends; with --format json, verbatim.")
@click.option("--full", is_flag=True, help="Show whole descriptions.")
@click.option("--strict", is_flag=True, help="As sent in strict mode, in which the provider enforces the schemas.")
@formats
@common
@pass_settings
def tools(
    settings: Settings,
    *,
    names: tuple[str, ...],
    everything: bool,
    protocol: str | None,
    full: bool,
    strict: bool,
    output: Format,
) -> None:
    """List the tools that are offered to a model.

    NAME is the name for the model, TOOL the name in the configuration and in commands. ASKS says whether a call runs,
    asks first, is denied, or depends on its arguments. With --strict, a column STRICT says whether a provider can
    enforce the tool's schema.

    \b
    Example:
      ripieno tools
      ripieno tools --ensemble io --format json
      ripieno tools --all
      ripieno tools --strict
    """
    loaded = load_layers(settings)
    show = None
    if strict or protocol is not None:
        from ripieno.cli.tools import sent  # It imports what a request to a model needs.

        wire = sent.resolve_wire(loaded, protocol, strict=strict)
        show = functools.partial(sent.print_sent, wire, output=output, full=full, strict=strict)
    loaded = select_ensembles(loaded, names)
    assembly = make_ensembles(loaded)
    listing = functools.partial(_list_tools, assembly, names, show, output, full=full, everything=everything)
    if assembly.connect_at_once():
        listing()
    else:
        run_async(_connected(assembly, listing))


async def _connected(assembly: ConnectedEnsembles, listing: Callable[[], None]) -> None:
    async with assembly:
        listing()


def _list_tools(
    assembly: ConnectedEnsembles,
    names: Sequence[str],
    show: Callable[[Offer], None] | None,
    output: Format,
    *,
    full: bool,
    everything: bool,
) -> None:
    for name in names:
        # Reports an optional ensemble that failed, instead of an empty table.
        assembly.access_ensemble(name)
    offer = Offer.of(assembly.ensembles)
    if show is not None:
        show(offer)
    elif output == "json":
        print_json(_mapping(assembly, offer))
    else:
        _print_offer(offer, assembly.configuration.confirmation, full=full)
        left_out = _left_out(assembly)
        if everything and left_out:
            click.echo()
            print_table(("UNAVAILABLE", "WHY"), list(left_out.items()))
        elif left_out:
            say(f"Unavailable: {len(left_out)} more. For the reasons: ripieno tools --all")


def _print_offer(offer: Offer, rules: Rules, *, full: bool) -> None:
    rows = [
        (
            invoker.exposed,
            invoker.identity,
            invoker.policy.effect,
            _ASKS[_outlook(invoker, rules).action],
            described(invoker.description, full=full),
        )
        for invoker in offer.invokers
    ]
    print_table(("NAME", "TOOL", "EFFECT", "ASKS", "DESCRIPTION"), rows, whole=("ASKS", "EFFECT", "NAME", "TOOL"))
    if offer.helpers is not None:
        names = ", ".join(invoker.identity for invoker in offer.searchable)
        say(f"Searchable: {len(offer.searchable)} more tools, found with {offer.helpers.search.exposed}: {names}")


def _left_out(assembly: ConnectedEnsembles) -> dict[str, str]:
    tools = {f"{one.name}.{tool}": f"{why}." for one in assembly.ensembles for tool, why in one.left_out.items()}
    return {**tools, **{one.name: one.reason for one in assembly.absences if one.file is None}}


def _mapping(assembly: ConnectedEnsembles, offer: Offer) -> dict[str, Any]:
    rules = assembly.configuration.confirmation
    return {
        "tools": [_tool(invoker, rules) for invoker in offer.invokers],
        "searchable": [_tool(invoker, rules) for invoker in offer.searchable],
        "left_out": left_out_mappings(assembly.loaded),
        "absences": [dataclasses.asdict(one) for one in assembly.absences if one.file is None],
        "tools_left_out": _left_out(assembly),
    }


def _outlook(invoker: Invoker, rules: Rules) -> Outlook:
    return expect(invoker.identity, invoker.policy, CallRules.of(rules))


def _tool(invoker: Invoker, rules: Rules) -> dict[str, Any]:
    verdict = _outlook(invoker, rules)
    # Presets are hidden from the model, and may be secret.
    policy = dataclasses.asdict(dataclasses.replace(invoker.policy, presets=frozendict()))
    return {
        "name": invoker.exposed,
        "identity": invoker.identity,
        "ensemble": invoker.ensemble.name,
        "description": invoker.description,
        "hosted": invoker.hosted,
        "confirmation": {"action": verdict.action, "reason": verdict.reason},
        "policy": {**policy, "presets": sorted(invoker.presets)},
        "arguments": invoker.arguments_schema,
        "results": invoker.results_schema,
    }


@click.command()
@formats
@common
@pass_settings
def ensembles(settings: Settings, output: Format) -> None:
    """List the ensembles: which are enabled, which are not, and why. Connects none of them.

    STATE is "enabled", "available" (include adds it), "disabled" (by its own file), or "left out".

    \b
    Example:
      ripieno ensembles
    """
    loaded = load_valid_layers(settings)
    enabled = [descriptor.name for descriptor in loaded.ensembles]
    others = sorted(name for name in loaded.known if name not in enabled)
    known = [loaded.known[name] for name in (*enabled, *others)]
    if output == "json":
        listed = [_ensemble(loaded, descriptor, enabled) for descriptor in known]
        print_json({"ensembles": listed, "left_out": left_out_mappings(loaded)})
        return
    rows = [
        (
            descriptor.name,
            _state(loaded, descriptor.name, enabled),
            _count(descriptor),
            descriptor.layer,
            described(descriptor.description, full=True),
        )
        for descriptor in known
    ]
    left_out = [one for one in loaded.left_out if one.layer == "project" and not one.name.startswith("[")]
    rows += [(one.name, "left out", "", one.layer, f"Not loaded: {one.reason}.") for one in left_out]
    print_table(("NAME", "STATE", "TOOLS", "LAYER", "DESCRIPTION"), rows)
    for name in others:
        if not is_available(loaded, name):
            click.echo(clean(f"{name}: {absence(loaded, name)}"))
    if any(is_available(loaded, name) for name in others):
        click.echo(clean(f"\n{how_to_include('NAME')}"))


def _state(loaded: LoadedConfiguration, name: str, enabled: Sequence[str]) -> str:
    return "enabled" if name in enabled else "available" if is_available(loaded, name) else "disabled"


def _count(descriptor: EnsembleDescriptor) -> str:
    declared = sum(invoker.enabled for invoker in descriptor.invokers)
    if descriptor.connection is None:
        return str(declared)
    return f"{declared} + {descriptor.connection.origin}" if declared else descriptor.connection.origin


def _ensemble(loaded: LoadedConfiguration, descriptor: EnsembleDescriptor, enabled: Sequence[str]) -> dict[str, Any]:
    return {
        "name": descriptor.name,
        "description": descriptor.description,
        "enabled": descriptor.name in enabled,
        "state": _state(loaded, descriptor.name, enabled),
        "reason": "" if descriptor.name in enabled else absence(loaded, descriptor.name),
        "layer": descriptor.layer,
        "file": descriptor.file,
        "required": descriptor.required,
        "origin": None if descriptor.connection is None else descriptor.connection.origin,
        "tools": [invoker.name for invoker in descriptor.invokers if invoker.enabled],
    }
