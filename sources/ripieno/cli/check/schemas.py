"""What of the tools' schemas the configured providers would not be told: warnings of ``check``."""

import shlex
from collections.abc import Iterator

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import InvokerDescriptor
from ripieno.exceptions import Problem, RipienoError
from ripieno.models import Protocol
from ripieno.schemas import Schema
from ripieno.schemas.lowering import PLAIN, Dialect, lower


def check_schemas(subject: Subject) -> Iterator[Problem]:
    """One warning for each declared tool and protocol that would leave out a part of the tool's schema."""
    for (protocol, strict), dialect in _dialects(subject.loaded).items():
        for descriptor in subject.loaded.ensembles:
            for invoker, body in descriptor.located():
                identity = f"{descriptor.name}.{invoker.name}"
                message = _explain_loss(identity, invoker, protocol, dialect) if invoker.enabled else None
                if message is not None:
                    options = ["--protocol", protocol, *(["--strict"] if strict else [])]
                    hint = f"See which: {shlex.join(['ripieno', 'explain', identity, *options])}"
                    yield finding(invoker.file, (*body, "arguments"), message, hint)


def _dialects(loaded: LoadedConfiguration) -> dict[tuple[str, bool], Dialect]:
    """What the configured models are spoken to in, by protocol and whether it is strict."""
    configuration = loaded.configuration
    agents = configuration.agents.values()
    asked = [(name, configuration.controls.strict) for name in (configuration.model, *configuration.fallback)]
    asked += [(agent.model or configuration.model, agent.controls.strict) for agent in agents]
    found: dict[tuple[str, bool], Dialect] = {}
    for name, wanted in asked:
        provider = None if name is None else loaded.providers.get(name.partition("/")[0])
        if provider is None or (provider.protocol, bool(wanted)) in found:
            continue
        try:
            protocol: Protocol = loaded.registry.resolve("protocols", provider.protocol)
        except RipienoError:
            continue  # Others say so.
        words = protocol.invocations
        found[provider.protocol, bool(wanted)] = (words.strict_dialect if wanted else None) or words.dialect
    return {key: dialect for key, dialect in found.items() if dialect is not PLAIN}


def _explain_loss(identity: str, invoker: InvokerDescriptor, protocol: str, dialect: Dialect) -> str | None:
    """What a protocol leaves out of the schema of a tool, or None."""
    try:
        schema = Schema.of(invoker.arguments).without(invoker.policy.presets)
    except RipienoError:
        return None  # Others say so.
    lowered = lower(schema, dialect)
    if lowered.reason:
        return f"{identity} cannot be strict for {protocol}: {lowered.reason}"
    lost = sum(one.matters for one in lowered.losses)
    return (
        f"{lost} keyword{'s' * (lost > 1)} of the schema of {identity} cannot be said to {protocol}" if lost else None
    )
