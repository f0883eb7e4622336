"""Selects the enabled ensembles: those that a configuration names, or those of a profile, and added ones."""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from frozendict import frozendict

from ripieno.descriptors import ConfigurationDescriptor, EnsembleDescriptor, ProfileDescriptor, RetryPolicy
from ripieno.descriptors.loading import Catalogue, locate
from ripieno.descriptors.loading.layers import ConfigurationPart
from ripieno.descriptors.loading.unknown_names import file_of
from ripieno.descriptors.policy_keys import retry_values
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.exceptions import ConfigurationInvalidity, InputError, NameAbsence, Problem, RipienoError, nearest

#: The profile if nothing is selected.
DEFAULT_PROFILE = "starter"
_LISTED = "To list the ensembles: ripieno ensembles"


def choose(
    known: Catalogue,
    configuration: ConfigurationDescriptor,
    profiles: Mapping[str, ProfileDescriptor],
    narrowed: tuple[str, ...] | None,
    failures: list[RipienoError],
    *,
    parts: Sequence[ConfigurationPart],
    advice: str = "",
    unread: Collection[str] = (),
    needed: Collection[str] | None = None,
) -> tuple[EnsembleDescriptor, ...]:
    """The enabled ensembles, in their order.

    ``[ensembles] enabled`` names them exactly. Otherwise they are those of the profile, and all of plugins, the user
    and the caller, since adding a file or allowing a plugin is a choice. ``include`` adds others in both cases.
    ``advice`` is added to the failure for an unknown name. ``unread`` are names whose files have errors: they are not
    reported a second time. If all that is ``needed`` is enabled, the others are not read: to compile the schemas of
    tools that nobody calls takes 5 MB (measured).
    """
    try:
        if configuration.enabled is not None:
            names, by = list(configuration.enabled), "under [ensembles] enabled"
        else:
            profile = configuration.profile or DEFAULT_PROFILE
            if profile not in profiles and profile not in unread:
                failures.append(_strange_profile(parts, profile, profiles))
            by = f"by the profile {profile!r}"
            selected = profiles.get(profile) or ProfileDescriptor(name=profile)
            categories = selected.categories
            names = [one for word in categories for one in sorted(known) if known.outlines[one].category == word]
            names = list(dict.fromkeys((*names, *selected.ensembles)))
            added = (name for name, layer in known.outlines.layers.items() if layer != "package")
            names += sorted(name for name in added if name not in names)
        if configuration.include:
            names = list(dict.fromkeys((*names, *configuration.include)))
    except InputError as error:
        failures.append(error)
        return ()
    for name in (one for one in names if one not in known and one not in unread):
        near = nearest(name, known)
        hint = f"It is named {by}." if near else f"It is named {by}. {advice}".strip()
        placed = place_in(parts, name)
        if placed is None:
            failures.append(NameAbsence("ensemble", name, known, hint=hint))
        else:
            failures.append(_strange("ensemble", name, *placed, spelling(name, known) if near else advice or _LISTED))
    names = [name for name in names if name in known]
    if narrowed is not None:
        names = [name for name in names if name in narrowed]
    if needed is not None and not {*needed}.difference(names):
        names = [name for name in names if name in needed]
    try:
        return tuple(_retrying(known[name], configuration.retry) for name in names if known.outlines[name].enabled)
    except InputError as error:
        failures.append(error)
        return ()


def apply_settings(
    known: Catalogue,
    whole: ConfigurationDescriptor,
    unread: Collection[str],
    failures: list[RipienoError],
    *,
    parts: Sequence[ConfigurationPart],
) -> Catalogue:
    """The ensembles with their tables of ``[configuration]``. An unknown name is added to ``failures``."""
    configured: list[EnsembleDescriptor] = []
    for name, settings in whole.settings.items():
        try:
            if name in known:
                configured.append(known[name].configured(settings))
            elif name not in unread:
                raise NameAbsence(
                    "ensemble",
                    name,
                    known,
                    hint=f"It is named under [configuration]{_place_of(parts, ('configuration', name))}.",
                )
        except InputError as error:
            failures.append(error)
    return known.replaced(configured)


def place_in(parts: Sequence[ConfigurationPart], name: str) -> tuple[str, Path] | None:
    """The file and key that names an ensemble; None if no file does. The mapping of a program has no lines."""
    for part in reversed(parts):
        for key in ("enabled", "include"):
            names = part.parts.get("ensembles", {}).get(key, ())
            if name in names and os.path.isabs(part.file):
                return part.file, ("ensembles", key, names.index(name))
    return None


def _strange_profile(parts: Sequence[ConfigurationPart], name: str, profiles: Mapping[str, object]) -> RipienoError:
    """The error for an unknown profile, at its place if a file names it."""
    path: Path = ("ensembles", "profile")
    for part in reversed(parts):
        if part.parts.get("ensembles", {}).get("profile") == name and os.path.isabs(part.file):
            return _strange("profile", name, part.file, path, spelling(name, profiles))
    return NameAbsence("profile", name, profiles)


def _strange(kind: str, name: str, file: str, path: Path, hint: str) -> ConfigurationInvalidity:
    message = f"[ensembles] {path[1]} names the {kind} {name!r}, which does not exist"
    return ConfigurationInvalidity(locate([Problem(message=message, file=file, key=dotted(path), hint=hint)]))


def _place_of(parts: Sequence[ConfigurationPart], path: Path) -> str:
    """The file and line of a key, to end a sentence with."""
    (place,) = locate([Problem(message="", file=file_of(parts, path), key=dotted(path))])
    return f", at {place.file}{'' if place.line is None else f':{place.line}'}" if place.file else ""


def _retrying(ensemble: EnsembleDescriptor, retry: Mapping[str, Any]) -> EnsembleDescriptor:
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


def applied_profile(configuration: ConfigurationDescriptor) -> str | None:
    """The name of the profile that selects the ensembles, also by default; None if ``enabled`` names them."""
    return configuration.profile or DEFAULT_PROFILE if configuration.enabled is None else None


def named_profile(
    configuration: ConfigurationDescriptor, profiles: Mapping[str, ProfileDescriptor]
) -> ProfileDescriptor | None:
    """The profile that a configuration names, if it selects the ensembles."""
    name = None if configuration.enabled is not None else configuration.profile
    return None if name is None else profiles.get(name)
