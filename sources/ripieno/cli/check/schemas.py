"""Warnings about schema keywords that a configured provider cannot express."""

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
    """A warning for each declared tool and protocol that omits a part of the tool's schema."""
    for (protocol, strict), dialect in _dialects(subject.loaded).items():
        for descriptor in subject.loaded.ensembles:
            for invoker, body in descriptor.located():
                identity = f"{descriptor.name}.{invoker.name}"
                message = _explain_loss(identity, invoker, protocol, dialect) if invoker.enabled else None
                if message is not None:
                    options = ["--protocol", protocol, *(["--strict"] if strict else [])]
                    hint = f"To list them: {shlex.join(['ripieno', 'explain', identity, *options])}"
                    yield finding(invoker.file, (*body, "arguments"), message, hint)


def _dialects(loaded: LoadedConfiguration) -> dict[tuple[str, bool], Dialect]:
    """The dialects of the configured models, by protocol and strictness."""
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
            continue  # Another check reports it.
        words = protocol.invocations
        found[provider.protocol, bool(wanted)] = (words.strict_dialect if wanted else None) or words.dialect
    return {key: dialect for key, dialect in found.items() if dialect is not PLAIN}


def _explain_loss(identity: str, invoker: InvokerDescriptor, protocol: str, dialect: Dialect) -> str | None:
    """The message about what a protocol omits from a tool's schema, or None."""
    try:
        schema = Schema.of(invoker.arguments).without(invoker.policy.presets)
    except RipienoError:
        return None  # Another check reports it.
    lowered = lower(schema, dialect)
    if lowered.reason:
        return f"{identity} cannot be strict for {protocol}: {lowered.reason}"
    lost = sum(one.matters for one in lowered.losses)
    return f"{protocol} cannot express {lost} keyword{'s' * (lost > 1)} of the schema of {identity}" if lost else None
