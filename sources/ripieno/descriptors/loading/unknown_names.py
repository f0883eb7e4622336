"""What a configuration names that nobody knows, or wants of whom cannot do it: each where it stands."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.descriptors.configuration import ConfigurationDescriptor
from ripieno.descriptors.loading.configuration import ConfigurationPart
from ripieno.descriptors.loading.documents import locate
from ripieno.descriptors.providers import ProviderDescriptor
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.exceptions import Problem

_PROMPTED = "prompted"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that there are. ``homes`` are the clouds that know where they are, without a base_url."""

    protocols: Collection[str]
    clouds: Collection[str]
    homes: Collection[str]


def find_strange_models(
    parts: Sequence[ConfigurationPart], configuration: ConfigurationDescriptor, providers: Collection[str]
) -> tuple[Problem, ...]:
    """The models of the configuration whose provider nobody knows. The part that wins is last.

    What a later part has replaced is not looked at: nobody will ask for it.
    """
    return locate(
        Problem(
            message=f"{dotted(path)} names the provider {name!r}, and there is none of that name",
            file=file_of(parts, path),
            key=dotted(path),
            hint=spelling(name, providers) or "Add one as a table [providers.NAME]; `ripieno providers` lists them.",
        )
        for path, model in models_of(configuration)
        if (name := model.partition("/")[0]) not in providers
    )


def find_strange_providers(
    parts: Sequence[ConfigurationPart], providers: Mapping[str, ProviderDescriptor], known: Known
) -> tuple[Problem, ...]:
    """The providers that nobody could be asked at: no such protocol, carrier or cloud, and no address."""
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
    """Where a model must call a tool that cannot be made to, as far as its data says."""
    found: dict[Problem, None] = {}
    for path, controls, models in _demands(configuration):
        for model in models:
            provider, _, name = model.partition("/")
            if controls.forced() and provider in providers and not _obeys(providers[provider], name):
                own = (*path, "tool_choice")
                at = own if file_of(parts, own) is not None else ("model", "tool_choice")
                problem = Problem(
                    message=f"tool_choice = {controls.tool_choice!r}, and {model} cannot be made to call a tool: "
                    "its data says tool_choice = false",
                    file=file_of(parts, at),
                    key=dotted(at),
                    hint=f"Leave it out, or set tool_choice = true in a row of [[providers.{provider}.models]].",
                )
                found[problem] = None
    return locate(found)


def models_of(configuration: ConfigurationDescriptor) -> Iterator[tuple[Path, str]]:
    """Each model that is named, and where."""
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


def file_of(parts: Sequence[ConfigurationPart], path: Path) -> str | None:
    """The file of the last part that has something there."""
    return next((part.file for part in reversed(parts) if _has(part.parts, path)), None)


def _has(value: Any, path: Path) -> bool:
    try:
        for key in path:
            value = value[key]
    except (LookupError, TypeError):
        return False
    return True


def _strange_keys(descriptor: ProviderDescriptor, known: Known) -> Iterator[tuple[str, str, str]]:
    """Key, message and hint of whatever is wrong."""
    names = {"protocol": descriptor.protocol}
    if descriptor.protocol == _PROMPTED and descriptor.carrier is not None:
        names["carrier"] = descriptor.carrier
    for key, name in names.items():
        if name not in known.protocols:
            # What a plugin brings is known when it may be loaded.
            hint = spelling(name, known.protocols) or "A plugin's protocols need its name under [plugins] allow."
            yield key, f"{key} names {name!r}, and there is no protocol of that name", hint
    if names.get("carrier") == _PROMPTED:
        hint = f"Name the wire that the server speaks: {', '.join(sorted({*known.protocols} - {_PROMPTED}))}."
        yield "carrier", f'"{_PROMPTED}" has no wire of its own, so it carries nothing', hint
    if descriptor.cloud is not None and descriptor.cloud not in known.clouds:
        hint = spelling(descriptor.cloud, known.clouds)
        yield "cloud", f"cloud names {descriptor.cloud!r}, and there is no cloud of that name", hint
    elif descriptor.base_url is None and descriptor.cloud not in known.homes:
        yield "base_url", f"provider {descriptor.name!r} has no base_url", 'Say where it is: base_url = "https://…".'


def _place(
    parts: Sequence[ConfigurationPart], descriptor: ProviderDescriptor, key: str, said: str, hint: str
) -> Problem:
    """The problem where its key stands, or where it is missed."""
    table: Path = ("providers", descriptor.name)
    for path in ((*table, key), table) if descriptor.file is None else ((*table, key),):
        if (file := file_of(parts, path)) is not None:
            return Problem(message=said, file=file, key=dotted(path), hint=hint)
    return Problem(message=said, file=descriptor.file, key=dotted(("provider", key)), hint=hint)


def _demands(configuration: ConfigurationDescriptor) -> Iterator[tuple[Path, Controls, tuple[str, ...]]]:
    """Where controls stand, what they are, and whom they are for."""
    default = () if configuration.model is None else (configuration.model,)
    yield ("model",), configuration.controls, (*default, *configuration.fallback)
    for name, agent in configuration.agents.items():
        own = default if agent.model is None else (agent.model,)
        fallback = configuration.fallback if own == default else ()
        models = (*own, *(fallback if agent.fallback is None else agent.fallback))
        yield ("agents", name, "controls"), agent.controls, models


def _obeys(descriptor: ProviderDescriptor, model: str) -> bool:
    """Whether a model can be made to call. A prompted one is only told to, which is always possible."""
    capabilities = descriptor.capabilities_for(model)
    prompted = descriptor.protocol == _PROMPTED or not capabilities["function_calling"]
    return prompted or bool(capabilities["tool_choice"])
