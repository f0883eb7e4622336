"""What of the tools' schemas the configured providers would not be told: warnings of ``check``."""

import shlex
from collections.abc import Iterator

from ripieno.assembly.configuration import Gathered
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.reader.problems import dotted
from ripieno.exceptions import Problem, RipienoError
from ripieno.models import Protocol
from ripieno.schemas import Schema
from ripieno.schemas.lowering import PLAIN, Dialect, lower


def find_losses(gathered: Gathered) -> Iterator[Problem]:
    """One warning for each declared tool and protocol that would leave out a part of the tool's schema."""
    for (protocol, strict), dialect in _dialects(gathered).items():
        for descriptor in gathered.ensembles:
            for index, invoker in enumerate(descriptor.invokers):
                if invoker.enabled:
                    yield from _losses(descriptor, index, invoker, protocol, dialect, strict=strict)


def _dialects(gathered: Gathered) -> dict[tuple[str, bool], Dialect]:
    """What the configured models are spoken to in, by protocol and whether it is strict."""
    configuration = gathered.configuration
    agents = configuration.agents.values()
    asked = [(name, configuration.controls.strict) for name in (configuration.model, *configuration.fallback)]
    asked += [(agent.model or configuration.model, agent.controls.strict) for agent in agents]
    found: dict[tuple[str, bool], Dialect] = {}
    for name, wanted in asked:
        provider = None if name is None else gathered.providers.get(name.partition("/")[0])
        if provider is None or (provider.protocol, bool(wanted)) in found:
            continue
        try:
            protocol: Protocol = gathered.registry.resolve("protocols", provider.protocol)
        except RipienoError:
            continue  # Others say so.
        words = protocol.invocations
        found[provider.protocol, bool(wanted)] = (words.strict_dialect if wanted else None) or words.dialect
    return {key: dialect for key, dialect in found.items() if dialect is not PLAIN}


def _losses(
    descriptor: EnsembleDescriptor,
    index: int,
    invoker: InvokerDescriptor,
    protocol: str,
    dialect: Dialect,
    *,
    strict: bool,
) -> Iterator[Problem]:
    try:
        schema = Schema.of(invoker.arguments).without(invoker.policy.presets)
    except RipienoError:
        return  # Others say so.
    lowered = lower(schema, dialect)
    lost = [one for one in lowered.losses if one.matters]
    identity = f"{descriptor.name}.{invoker.name}"
    if lowered.reason:
        message = f"{identity} cannot be strict for {protocol}: {lowered.reason}"
    elif lost:
        message = f"{len(lost)} keyword{'s' * (len(lost) > 1)} of the schema of {identity} cannot be said to {protocol}"
    else:
        return
    inline = invoker.file == descriptor.file
    command = shlex.join(["ripieno", "explain", identity, "--protocol", protocol, *(["--strict"] if strict else [])])
    yield Problem(
        message=message,
        file=invoker.file,
        key=dotted(("invokers", index, "arguments") if inline else ("arguments",)),
        hint=f"See which: {command}",
        severity="warning",
    )
