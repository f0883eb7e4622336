"""Warnings about settings of models and providers without effect, and about schemas that providers cannot express."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.findings import Subject, finding
from ripieno.cli.common.models import missing_needs, missing_variables
from ripieno.descriptors import InvokerDescriptor, ProviderDescriptor
from ripieno.descriptors.durable import SCORE
from ripieno.descriptors.loading import load_providers
from ripieno.descriptors.loading.unknown_names import file_of, models_of
from ripieno.descriptors.model_rows import find_idle
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.exceptions import Problem, RipienoError
from ripieno.jsonvalues import EMPTY
from ripieno.models import Protocol
from ripieno.schemas import Schema
from ripieno.schemas.lowering import PLAIN, Dialect, lower


def check_models(subject: Subject) -> Iterator[Problem]:
    """Warnings about model rows and carriers without effect, and about fallbacks that cannot help."""
    loaded = subject.loaded
    if loaded.failures:
        return
    yield from _idle_carriers(loaded)
    yield from _idle_fallbacks(loaded, subject.surroundings.secrets)
    yield from _idle_rates(loaded)
    for part in loaded.parts:
        for name, keys in part.parts.get("providers", EMPTY).items():
            patterns = [row["match"] for row in keys.get("models", ())]
            yield from _idle_rows(patterns, part.file, ("providers", name, "models"))
    for descriptor in load_providers(loaded.layers).providers.values():
        yield from check_rows(descriptor)


def check_rows(descriptor: ProviderDescriptor) -> Iterator[Problem]:
    """Warnings about rows in a provider's own file that never match."""
    yield from _idle_rows([row.match for row in descriptor.models], descriptor.file, ("models",))


def _idle_rows(patterns: Sequence[str], file: str | None, at: Path) -> Iterator[Problem]:
    for index, earlier in find_idle(patterns):
        yield finding(
            file,
            (*at, index, "match"),
            f'the row for "{patterns[index]}" is never used: the earlier "{patterns[earlier]}" matches the same models',
            f'Move it before the row for "{patterns[earlier]}", or delete it.',
        )


def _idle_carriers(loaded: LoadedConfiguration) -> Iterator[Problem]:
    for descriptor in loaded.providers.values():
        if descriptor.carrier is not None and descriptor.protocol != "prompted":
            at: Path = ("providers", descriptor.name, "carrier")
            file = file_of(loaded.parts, at)
            yield finding(
                file or descriptor.file,
                ("provider", "carrier") if file is None else at,
                f'carrier applies only to protocol = "prompted", and {descriptor.name!r} uses {descriptor.protocol}',
                f'Delete it, or write protocol = "prompted", carrier = "{descriptor.carrier}".',
            )


def _idle_fallbacks(loaded: LoadedConfiguration, variables: Mapping[str, str]) -> Iterator[Problem]:
    """Warnings about fallbacks that are the model itself, or that have no key."""
    configuration = loaded.configuration
    for path, model in models_of(configuration):
        if "fallback" not in path:
            continue
        own = configuration.model
        if path[0] == "agents":
            own = configuration.agents[str(path[1])].model or own
        if model == own:
            message = f"{dotted(path)} is {model!r}, the model itself, which has already failed then"
            yield finding(file_of(loaded.parts, path), path, message, "Delete it, or name another model.")
        elif lacking := missing_variables(provider := loaded.providers.get(model.partition("/")[0]), variables):
            message = f"the fallback {model} cannot be used: its provider lacks {' and '.join(lacking)}"
            advice = f"{_advice(provider, variables)}; or delete the fallback."
            yield finding(file_of(loaded.parts, path), path, message, advice)


def _idle_rates(loaded: LoadedConfiguration) -> Iterator[Problem]:
    """Warnings about rates of providers that do not exist."""
    known = [*loaded.providers, SCORE]
    for name in loaded.configuration.durable.provider_rates:
        if name not in known:
            path: Path = ("durable", "provider_rates", name)
            message = f"the rate applies to no run: there is no provider named {name!r}"
            hint = spelling(name, known) or f'To list the providers: ripieno providers. Scripted models are "{SCORE}".'
            yield finding(file_of(loaded.parts, path), path, message, hint)


def check_keys(subject: Subject) -> Iterator[Problem]:
    """A warning for each provider of a configured model that lacks its key, at the first model that needs it."""
    loaded = subject.loaded
    variables, seen = subject.surroundings.secrets, set[str]()
    for path, model in () if loaded.failures else models_of(loaded.configuration):
        name = model.partition("/")[0]
        provider = loaded.providers.get(name)
        lacking = missing_variables(provider, variables)
        if lacking and "fallback" not in path and name not in seen:
            seen.add(name)
            message = f"the provider of {model} lacks {' and '.join(lacking)}"
            yield finding(file_of(loaded.parts, path), path, message, _advice(provider, variables))


def _advice(provider: ProviderDescriptor | None, variables: Mapping[str, str]) -> str:
    """The command that sets the missing variables of a provider, of alternatives the first."""
    names = [name for need in missing_needs(provider, variables) for name in need[0]]
    return f"Set {'it' if len(names) == 1 else 'them'}: export {' '.join(f'{name}=…' for name in names)}"


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
