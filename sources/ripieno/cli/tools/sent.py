"""The definitions of tools as a wire format sends them."""

import click

from ripieno.assembly.builtins import DEFAULT_PROTOCOL
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.options import Format
from ripieno.cli.common.tables import described, print_json, print_table
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import encode
from ripieno.models import Protocol


def resolve_wire(loaded: LoadedConfiguration, protocol: str | None, *, strict: bool) -> Protocol:
    """The named wire format; by default that of the configured model.

    Errors: ``UsageError`` for one that does not support ``strict``.
    """
    if protocol is None:
        provider = loaded.providers.get((loaded.configuration.model or "").partition("/")[0])
        protocol = DEFAULT_PROTOCOL if provider is None else provider.protocol
    wire: Protocol = loaded.registry.resolve("protocols", protocol)
    if strict and wire.invocations.strict_dialect is None:
        raise click.UsageError(f"The protocol {protocol!r} has no strict mode: leave out --strict.")
    return wire


def print_sent(wire: Protocol, offer: Offer, output: Format, *, full: bool, strict: bool) -> None:
    """Prints the offered tools as a table with their sizes, or as the JSON that is sent."""
    invocations = wire.invocations
    if output == "json":
        print_json(list(invocations.prepare_tools(offer, strict=strict)))
        return
    rows: list[tuple[str, ...]] = []
    for invoker in offer.invokers:
        if invoker.hosted == "provider":
            continue
        held = (("yes" if invocations.lowered(invoker, strict=True).strict else "no"),) if strict else ()
        size = str(len(encode(invocations.definition_of(invoker, strict=strict))))
        rows.append((invoker.exposed, size, *held, described(invoker.description, full=full)))
    names = ("NAME", "BYTES", *(("STRICT",) if strict else ()))
    print_table((*names, "DESCRIPTION"), rows, whole=names)
