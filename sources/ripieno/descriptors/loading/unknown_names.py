"""Checks of a configuration: unknown providers, protocols and clouds, and impossible tool choices."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.descriptors.configuration import ConfigurationDescriptor
from ripieno.descriptors.loading.documents import locate
from ripieno.descriptors.loading.layers import ConfigurationPart
from ripieno.descriptors.providers import ProviderDescriptor
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling, undotted
from ripieno.exceptions import Problem
from ripieno.values import Value

_PROMPTED = "prompted"


class Known(Value, kw_only=True):
    """The known names. ``homes`` are the clouds that need no base_url; with None, no provider needs one."""

    protocols: Collection[str]
    clouds: Collection[str]
    homes: Collection[str] | None


def find_broken_providers(problems: Iterable[Problem]) -> Collection[str] | None:
    """The names of the tables under [providers] with problems; None if others may be missing, too."""
    paths = [undotted(problem.key or "")[:2] for problem in problems]
    if () in paths or ("providers",) in paths:
        return None
    return {str(path[1]) for path in paths if path[0] == "providers"}


def find_strange_models(
    parts: Sequence[ConfigurationPart], configuration: ConfigurationDescriptor, providers: Collection[str]
) -> tuple[Problem, ...]:
    """The models of the configuration with an unknown provider. Values that a later part replaced are not checked."""
    return locate(
        Problem(
            message=f"{dotted(path)} names the provider {name!r}, which does not exist",
            file=file_of(parts, path),
            key=dotted(path),
            hint=spelling(name, providers) or "Add a table [providers.NAME]. To list the providers: ripieno providers",
        )
        for path, model in models_of(configuration)
        if (name := model.partition("/")[0]) not in providers
    )


def find_strange_providers(
    parts: Sequence[ConfigurationPart], providers: Mapping[str, ProviderDescriptor], known: Known
) -> tuple[Problem, ...]:
    """The providers with an unknown protocol, carrier or cloud, or without an address."""
    return locate(
        _place(parts, descriptor, key, message, hint)
        for descriptor in providers.values()
        for key, message, hint in _strange_keys(descriptor, known)
    )


def find_strange_choices(
    parts: Sequence[ConfigurationPart],
    configuration: ConfigurationDescriptor,
    providers: Mapping[str, ProviderDescriptor],
) -> tuple[Problem, ...]:
    """The forced tool choices of models that cannot be forced, according to their data."""
    found: dict[Problem, None] = {}
    for path, controls, models in _demands(configuration):
        for model in models:
            provider, _, name = model.partition("/")
            if controls.forced() and provider in providers and not _obeys(providers[provider], name):
                own = (*path, "tool_choice")
                at = own if file_of(parts, own) is not None else ("model", "tool_choice")
                problem = Problem(
                    message=f"tool_choice = {controls.tool_choice!r}, but {model} cannot be forced to call a tool: "
                    "its data says tool_choice = false",
                    file=file_of(parts, at),
                    key=dotted(at),
                    hint=f"Delete it, or set tool_choice = true in a row of [[providers.{provider}.models]].",
                )
                found[problem] = None
    return locate(found)


def models_of(configuration: ConfigurationDescriptor) -> Iterator[tuple[Path, str]]:
    """Each named model, with its path."""
    if configuration.model is not None:
        yield ("model", "default"), configuration.model
    yield from ((("model", "fallback", index), model) for index, model in enumerate(configuration.fallback))
    if configuration.history.model is not None:
        yield ("history", "model"), configuration.history.model
    gateway = configuration.gateway
    yield from ((("gateway", "models", index), model) for index, model in enumerate(gateway.models))
    yield from ((("gateway", "map", name), model) for name, model in gateway.map.items())
    for name, agent in configuration.agents.items():
        if agent.history.model not in (None, configuration.history.model):
            yield ("agents", name, "history", "model"), str(agent.history.model)
        if agent.model is not None:
            yield ("agents", name, "model"), agent.model
        yield from ((("agents", name, "fallback", index), model) for index, model in enumerate(agent.fallback or ()))


def place_at_model(
    problems: Iterable[Problem], model: str, parts: Sequence[ConfigurationPart], configuration: ConfigurationDescriptor
) -> tuple[Problem, ...]:
    """The problems of a model, at the first line that chooses it; without a place if there is none."""
    path = next((path for path, one in models_of(configuration) if one == model), None)
    if path is None:
        return tuple(problems)
    return locate(dataclasses.replace(one, file=file_of(parts, path), key=dotted(path)) for one in problems)


def file_of(parts: Sequence[ConfigurationPart], path: Path) -> str | None:
    """The file of the last part that has the path."""
    return next((part.file for part in reversed(parts) if _has(part.parts, path)), None)


def _has(value: Any, path: Path) -> bool:
    try:
        for key in path:
            value = value[key]
    except (LookupError, TypeError):
        return False
    return True


def _strange_keys(descriptor: ProviderDescriptor, known: Known) -> Iterator[tuple[str, str, str]]:
    """Key, message and hint of each problem of a provider."""
    names = {"protocol": descriptor.protocol}
    if descriptor.protocol == _PROMPTED and descriptor.carrier is not None:
        names["carrier"] = descriptor.carrier
    for key, name in names.items():
        if name not in known.protocols:
            hint = spelling(name, known.protocols) or "For a plugin's protocol, add the plugin to [plugins] allow."
            yield key, f"{key} names the protocol {name!r}, which does not exist", hint
    if names.get("carrier") == _PROMPTED:
        hint = f"Name the wire format of the server: {', '.join(sorted({*known.protocols} - {_PROMPTED}))}."
        yield "carrier", f'"{_PROMPTED}" has no wire format of its own, so it cannot be a carrier', hint
    if descriptor.cloud is not None and descriptor.cloud not in known.clouds:
        hint = spelling(descriptor.cloud, known.clouds)
        yield "cloud", f"cloud names {descriptor.cloud!r}, which does not exist", hint
    elif descriptor.base_url is None and known.homes is not None and descriptor.cloud not in known.homes:
        yield "base_url", f"provider {descriptor.name!r} has no base_url", 'Add its URL: base_url = "https://…".'


def _place(
    parts: Sequence[ConfigurationPart], descriptor: ProviderDescriptor, key: str, message: str, hint: str
) -> Problem:
    """The problem at its key, or at the table that lacks the key."""
    table: Path = ("providers", descriptor.name)
    for path in ((*table, key), table) if descriptor.file is None else ((*table, key),):
        if (file := file_of(parts, path)) is not None:
            return Problem(message=message, file=file, key=dotted(path), hint=hint)
    return Problem(message=message, file=descriptor.file, key=dotted(("provider", key)), hint=hint)


def _demands(configuration: ConfigurationDescriptor) -> Iterator[tuple[Path, Controls, tuple[str, ...]]]:
    """The path of each table of controls, the controls, and their models."""
    default = () if configuration.model is None else (configuration.model,)
    yield ("model",), configuration.controls, (*default, *configuration.fallback)
    for name, agent in configuration.agents.items():
        own = default if agent.model is None else (agent.model,)
        fallback = configuration.fallback if own == default else ()
        models = (*own, *(fallback if agent.fallback is None else agent.fallback))
        yield ("agents", name, "controls"), agent.controls, models


def _obeys(descriptor: ProviderDescriptor, model: str) -> bool:
    """Whether a model can be forced to call. A prompted one gets an instruction, which is always possible."""
    capabilities = descriptor.capabilities_for(model)
    prompted = descriptor.protocol == _PROMPTED or not capabilities["function_calling"]
    return prompted or bool(capabilities["tool_choice"])
