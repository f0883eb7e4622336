"""``ripieno tools`` and ``ripieno ensembles``: what there is, and what a model is offered."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click
from frozendict import frozendict

from ripieno.approvals.rules import Outlook, expect
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters.controls import Rules
from ripieno.cli.common.assembly import (
    absence,
    left_out_mappings,
    load_layers,
    make_assembly,
    only,
    require_ensembles,
    resolve_wire,
)
from ripieno.cli.common.main import run_async, say
from ripieno.cli.common.options import Format, Settings, common, formats, pass_settings
from ripieno.cli.common.tables import described, print_json, print_table
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.rules import CallRules
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import AssemblyFailure
from ripieno.jsonvalues import encode
from ripieno.models import Protocol

#: Whether a call asks first, in a word.
ASKS = {"run": "no", "ask": "yes", "deny": "denied", "depends": "depends"}


@click.command()
@click.option("--ensemble", "-e", "names", metavar="E", multiple=True, help="Only the tools of this ensemble.")
@click.option("--all", "everything", is_flag=True, help="Those that are left out, too, and why.")
@click.option("--protocol", metavar="P", help="Only what this wire format sends; with --format json, exactly that.")
@click.option("--strict", is_flag=True, help="As it is sent when the provider holds arguments to their schemas.")
@formats
@common
@pass_settings
def tools(
    settings: Settings, *, names: tuple[str, ...], everything: bool, protocol: str | None, strict: bool, output: Format
) -> None:
    """List the tools that a model is offered.

    NAME is what a model sees, TOOL what you and your configuration call it. ASKS says whether a call runs, asks first,
    is denied, or whether that depends on its arguments. STRICT says whether the schema of a tool can be said so that a
    provider holds to it.

    \b
    Example:
      ripieno tools
      ripieno tools --ensemble io --format json
      ripieno tools --all
      ripieno tools --protocol P --strict
    """
    loaded = load_layers(settings)
    wire = resolve_wire(loaded, protocol, strict=strict) if strict or protocol is not None else None
    if names and not loaded.failures:
        require_ensembles(loaded, names)
        loaded = only(loaded, names)
    run_async(_list_tools(loaded, names, wire, output, strict=strict, everything=everything))


async def _list_tools(
    loaded: LoadedConfiguration,
    names: Sequence[str],
    wire: Protocol | None,
    output: Format,
    *,
    strict: bool,
    everything: bool,
) -> None:
    async with make_assembly(loaded) as assembly:
        for name in names:
            # One that is optional may have failed; an empty table would not say so.
            assembly.access_ensemble(name)
        offer = Offer.of(assembly.ensembles)
        if wire is not None:
            _print_sent(wire, offer, output, strict=strict)
        elif output == "json":
            print_json(_everything(assembly, offer))
        else:
            _print_offer(offer, loaded.configuration.confirmation)
            _print_left_out(_left_out(assembly), everything=everything)


def _print_sent(wire: Protocol, offer: Offer, output: Format, *, strict: bool) -> None:
    words = wire.invocations
    if output == "json":
        print_json(list(words.prepare_tools(offer, strict=strict)))
        return
    rows: list[tuple[str, ...]] = []
    for invoker in offer.invokers:
        if invoker.hosted == "provider":
            continue
        held = (("yes" if words.lowered(invoker, strict=True).strict else "no"),) if strict else ()
        size = str(len(encode(words.definition_of(invoker, strict=strict))))
        rows.append((invoker.exposed, size, *held, described(invoker.description)))
    print_table(("NAME", "BYTES", *(("STRICT",) if strict else ()), "DESCRIPTION"), rows)


def _print_offer(offer: Offer, rules: Rules) -> None:
    rows = [
        (
            invoker.exposed,
            invoker.identity,
            invoker.policy.effect,
            ASKS[outlook(invoker, rules).action],
            described(invoker.description),
        )
        for invoker in offer.invokers
    ]
    print_table(("NAME", "TOOL", "EFFECT", "ASKS", "DESCRIPTION"), rows)
    if offer.helpers is not None:
        names = ", ".join(invoker.identity for invoker in offer.searchable)
        say(f"Searchable: {len(offer.searchable)} more, which a model finds by {offer.helpers.search.exposed}: {names}")


def _left_out(assembly: Assembly) -> dict[str, str]:
    """The tools and ensembles that were selected and do not play, by name, each with its reason."""
    tools = {f"{one.name}.{tool}": f"{why}." for one in assembly.ensembles for tool, why in one.left_out.items()}
    return {**tools, **{one.name: one.reason for one in assembly.absences if one.file is None}}


def _print_left_out(left_out: Mapping[str, str], *, everything: bool) -> None:
    """Each with its reason; or, for those who read a table only, how many there are."""
    if everything and left_out:
        click.echo()
        print_table(("LEFT OUT", "WHY"), list(left_out.items()))
    elif left_out:
        say(f"Left out: {len(left_out)} more, which cannot be called here. See them and why: ripieno tools --all")


def _everything(assembly: Assembly, offer: Offer) -> dict[str, Any]:
    rules = assembly.configuration.confirmation
    return {
        "tools": [_tool(invoker, rules) for invoker in offer.invokers],
        "searchable": [_tool(invoker, rules) for invoker in offer.searchable],
        "left_out": left_out_mappings(assembly.loaded),
        "absences": [dataclasses.asdict(one) for one in assembly.absences if one.file is None],
        "tools_left_out": _left_out(assembly),
    }


def outlook(invoker: Invoker, rules: Rules) -> Outlook:
    """What rules say of the calls of a tool."""
    return expect(invoker.identity, invoker.policy, CallRules.of(rules))


def _tool(invoker: Invoker, rules: Rules) -> dict[str, Any]:
    verdict = outlook(invoker, rules)
    # What is fixed and hidden from the model may be a secret.
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
    """List the ensembles: which play, which do not, and why. Connects to none of them.

    \b
    Example:
      ripieno ensembles
    """
    loaded = load_layers(settings)
    if loaded.failures:
        raise AssemblyFailure("Start-up would fail:", loaded.failures)
    playing = [descriptor.name for descriptor in loaded.ensembles]
    others = sorted(name for name in loaded.known if name not in playing)
    known = [loaded.known[name] for name in (*playing, *others)]
    if output == "json":
        rows = [_ensemble(loaded, descriptor, playing) for descriptor in known]
        print_json({"ensembles": rows, "left_out": left_out_mappings(loaded)})
        return
    print_table(
        ("NAME", "PLAYS", "TOOLS", "LAYER", "DESCRIPTION"),
        [
            (
                descriptor.name,
                "yes" if descriptor.name in playing else "no",
                _count(descriptor),
                descriptor.layer,
                described(descriptor.description) if descriptor.name in playing else absence(loaded, descriptor.name),
            )
            for descriptor in known
        ],
    )


def _count(descriptor: EnsembleDescriptor) -> str:
    declared = sum(invoker.enabled for invoker in descriptor.invokers)
    if descriptor.connection is None:
        return str(declared)
    return f"{declared} + {descriptor.connection.origin}" if declared else descriptor.connection.origin


def _ensemble(loaded: LoadedConfiguration, descriptor: EnsembleDescriptor, playing: Sequence[str]) -> dict[str, Any]:
    return {
        "name": descriptor.name,
        "description": descriptor.description,
        "plays": descriptor.name in playing,
        "reason": "" if descriptor.name in playing else absence(loaded, descriptor.name),
        "layer": descriptor.layer,
        "file": descriptor.file,
        "required": descriptor.required,
        "origin": None if descriptor.connection is None else descriptor.connection.origin,
        "tools": [invoker.name for invoker in descriptor.invokers if invoker.enabled],
    }
