"""The known providers: those of the data, with the settings of the configuration over them, and what is wrong there."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ripieno.assembly.plugins import Registry
from ripieno.descriptors import ConfigurationDescriptor, ProviderDescriptor
from ripieno.descriptors.loading import LoadedProviders, locate
from ripieno.descriptors.loading.layers import ConfigurationPart
from ripieno.descriptors.loading.unknown_names import (
    Known,
    file_of,
    find_broken_providers,
    find_strange_choices,
    find_strange_models,
    find_strange_providers,
)
from ripieno.descriptors.providers import lay_over
from ripieno.exceptions import Problem
from ripieno.models.transport.cloud_names import CLOUDS, HOMES


def combine_providers(
    from_data: LoadedProviders,
    parts: Sequence[ConfigurationPart],
    whole: ConfigurationDescriptor,
    registry: Registry,
    reported: Iterable[Problem],
) -> tuple[Mapping[str, ProviderDescriptor], Sequence[Problem]]:
    """The providers with the settings of the configuration over them, and the problems of them and of the models.

    ``reported`` are the problems of the configuration. A table with some of them has only its other keys here: what it
    lacks is no further problem. Names are not checked if a file or a plugin that could not be read may define them.
    """
    added: dict[str, ProviderDescriptor] = {}
    broken = find_broken_providers(reported)
    problems: list[Problem] = []
    incomplete: dict[str, ProviderDescriptor] = {}
    for name, keys in whole.providers.items():
        descriptor, wrong = lay_over(from_data.providers.get(name), name, keys)
        if name in (broken or ()):
            incomplete |= {} if descriptor is None else {name: descriptor}
            continue
        file = file_of(parts, ("providers", name))
        problems += locate(dataclasses.replace(problem, file=file) for problem in wrong)
        if descriptor is not None:
            added[name] = descriptor
    providers = from_data.providers.replaced(added, without=[one for one in whole.providers if one in (broken or ())])
    unread = any(one.severity == "error" for one in from_data.problems)
    if broken is not None and not (unread or registry.failures or registry.missing):
        known = Known(protocols=registry.protocols, clouds=CLOUDS, homes=HOMES)
        problems += find_strange_models(parts, whole, {*providers, *whole.providers, *broken})
        # Those that were not read are of the package, which knows their names.
        problems += find_strange_providers(parts, providers.known, known)
        problems += find_strange_providers(parts, incomplete, dataclasses.replace(known, homes=None))
        problems += find_strange_choices(parts, whole, providers)
    return providers, problems
