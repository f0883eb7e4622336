"""Selects the enabled ensembles: those that a configuration names, or those of a profile, and added ones."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import ConfigurationDescriptor, EnsembleDescriptor, ProfileDescriptor, RetryPolicy
from ripieno.descriptors.loading import Catalogue
from ripieno.descriptors.policy_keys import retry_values
from ripieno.exceptions import InputError, NameAbsence, RipienoError

#: The profile if nothing is selected.
DEFAULT_PROFILE = "starter"


def choose(
    known: Catalogue,
    configuration: ConfigurationDescriptor,
    profiles: Mapping[str, ProfileDescriptor],
    narrowed: tuple[str, ...] | None,
    failures: list[RipienoError],
) -> tuple[EnsembleDescriptor, ...]:
    """The enabled ensembles, in their order.

    ``[ensembles] enabled`` names them exactly. Otherwise they are those of the profile, and all of plugins, the user
    and the caller, since adding a file or allowing a plugin is a choice. ``include`` adds others in both cases.
    """
    try:
        if configuration.enabled is not None:
            names, by = list(configuration.enabled), "under [ensembles] enabled"
        else:
            profile = configuration.profile or DEFAULT_PROFILE
            if profile not in profiles:
                raise NameAbsence("profile", profile, profiles)
            by = f"by the profile {profile!r}"
            categories = profiles[profile].categories
            names = [one for word in categories for one in sorted(known) if known.outlines[one].category == word]
            names = list(dict.fromkeys((*names, *profiles[profile].ensembles)))
            added = (one.name for one in known.outlines.values() if one.layer != "package")
            names += sorted(name for name in added if name not in names)
        if configuration.include:
            by += ", or under [ensembles] include"
            names = list(dict.fromkeys((*names, *configuration.include)))
    except InputError as error:
        failures.append(error)
        return ()
    missing = [NameAbsence("ensemble", name, known, hint=f"It is named {by}.") for name in names if name not in known]
    if missing:
        failures.extend(missing)
        return ()
    if narrowed is not None:
        names = [name for name in names if name in narrowed]
    try:
        return tuple(_retrying(known[name], configuration.retry) for name in names if known.outlines[name].enabled)
    except InputError as error:
        failures.append(error)
        return ()


def _retrying(ensemble: EnsembleDescriptor, retry: Mapping[str, Any]) -> EnsembleDescriptor:
    """An ensemble with these retry keys as defaults of its own and its invokers' keys."""
    if not retry:
        return ensemble
    combined: frozendict[str, Any] = frozendict({**retry, **retry_values(ensemble.defaults)})
    others = {name: value for name, value in ensemble.defaults.items() if name != "max_retries"}
    return dataclasses.replace(
        ensemble,
        defaults=frozendict({**others, "retry": combined}),
        invokers=tuple(
            dataclasses.replace(
                one, policy=dataclasses.replace(one.policy, retry=RetryPolicy(**{**combined, **one.retry}))
            )
            for one in ensemble.invokers
        ),
    )


def named_profile(
    configuration: ConfigurationDescriptor, profiles: Mapping[str, ProfileDescriptor]
) -> ProfileDescriptor | None:
    """The profile that a configuration names, if it selects the ensembles."""
    if configuration.enabled is not None or configuration.profile is None:
        return None
    return profiles.get(configuration.profile)
