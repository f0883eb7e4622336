"""Finds plugins and what they provide. Only allowed distributions are imported: installation is not consent.

The built-in parts are a plugin with the same hooks.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import pluggy

from ripieno.assembly.entry_points import plugin_entries
from ripieno.descriptors.loading import locate
from ripieno.descriptors.loading.layers import ConfigurationPart
from ripieno.descriptors.reader.problems import dotted
from ripieno.exceptions import NameAbsence, PluginFailure, Problem, nearest
from ripieno.plugin import hooks
from ripieno.values import Value

#: The plugin that comes with the package.
BUILT_IN = "ripieno.assembly.builtins"


class PluginStatus(Value, kw_only=True):
    """One plugin: whether it is allowed, and why it failed."""

    name: str
    distribution: str
    version: str
    allowed: bool
    failure: str | None = None


class Registry(Value, kw_only=True):
    """Everything that plugins provide, by name, not yet imported.

    ``data`` pairs the name of a layer with its folders: the built-in ones first, then those of plugins by name.
    """

    data: tuple[tuple[str, tuple[pathlib.Path, ...]], ...] = ()
    origins: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    transports: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    protocols: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    sandboxes: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    commands: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    plugins: tuple[PluginStatus, ...] = ()
    #: What ``[plugins] allow`` has, and the configuration to change; empty if it is unknown.
    allow: tuple[str, ...] = ()
    file: str = ""
    #: The names that ``[plugins] allow`` has, and no installed distribution.
    missing: tuple[str, ...] = ()
    failures: tuple[PluginFailure, ...] = ()

    @property
    def advice(self) -> str:
        """Advice about plugins that failed, are not installed, or are not allowed; empty if there are none."""
        if failed := sorted({one.plugin for one in self.failures}):
            return f"It may come from a plugin that could not be loaded: {', '.join(failed)}."
        absent = ""
        if self.missing:
            absent = f"It may come from a plugin that is allowed and not installed: {', '.join(self.missing)}."
        others = sorted({one.distribution for one in self.plugins if not one.allowed})
        if not others:
            return absent
        where = f"under [plugins]{self.file and f' in {self.file}'}"
        how = f"To allow it, write {where}" if len(others) == 1 else f"To allow one, name it {where}, such as"
        line = f"allow = {json.dumps([*self.allow, others[0]])}"
        more = f"Installed plugins that are not allowed: {', '.join(others)}. {how}: {line}"
        return f"{absent} {more}".lstrip()

    def resolve(self, kind: str, name: str) -> Any:
        """The object of a name in ``origins``, ``protocols``, ``sandboxes`` or ``commands``; imports it.

        The origin ``mcp`` gets the transports.

        Errors: ``NameAbsence`` with the nearest names; ``PluginFailure`` when it cannot be imported.
        """
        paths: Mapping[str, str] = getattr(self, kind)
        if name not in paths:
            raise NameAbsence(kind.removesuffix("es") if kind == "sandboxes" else kind.removesuffix("s"), name, paths)
        found = resolve(paths[name])
        if kind == "origins" and name == "mcp" and self.transports:
            return found.with_transports({name: resolve(path) for name, path in self.transports.items()})
        return found


def resolve(path: str) -> Any:
    """The object of a dotted path such as ``package.module:NAME``. Errors: ``PluginFailure``."""
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except Exception as error:
        raise PluginFailure(path, f"it cannot be imported: {type(error).__name__}: {error}") from error


def discover(allow: Collection[str] = (), *, file: str = "") -> Registry:
    """The objects that the built-in plugin and the allowed plugins provide.

    ``allow`` has the names of distributions, in any spelling; ``file`` is where to allow others. A plugin that fails is
    listed in ``failures``, without an effect on the others.
    """
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(importlib.import_module(BUILT_IN), name=BUILT_IN)
    statuses: list[PluginStatus] = []
    failures: list[PluginFailure] = []
    allowed = {normalize(name) for name in allow}
    found: set[str] = set()
    for entry in plugin_entries(tuple(sys.path)):
        distribution = entry.dist.name if entry.dist is not None else ""
        version = entry.dist.version if entry.dist is not None else ""
        consent = normalize(distribution) in allowed
        failure = _register(manager, entry) if consent else None
        found.add(normalize(distribution))
        if failure is not None:
            failures.append(failure)
        statuses.append(
            PluginStatus(
                name=entry.name,
                distribution=distribution,
                version=version,
                allowed=consent,
                failure=None if failure is None else failure.reason,
            )
        )
    missing = tuple(sorted(name for name in allow if normalize(name) not in found))
    registry = _collect(manager, statuses, failures)
    return dataclasses.replace(registry, allow=tuple(allow), file=file, missing=missing)


def place_to_allow(parts: Sequence[ConfigurationPart]) -> str:
    """The configuration whose list of allowed plugins counts, or would: the last one. Empty if there is none."""
    named = [part.file for part in parts if "allow" in part.parts.get("plugins", {})]
    return next(reversed(named or [part.file for part in parts]), "")


def find_missing(registry: Registry, parts: Sequence[ConfigurationPart]) -> tuple[Problem, ...]:
    """A warning for each plugin that ``[plugins] allow`` names and that is not installed, with file and line."""
    return locate(
        Problem(
            message=f"the plugin {name!r} is not installed",
            file=part.file,
            key=dotted(("plugins", "allow", allowed.index(name))),
            hint=f"Did you mean {near[0]!r}?"
            if (near := nearest(name, {one.distribution for one in registry.plugins} - {*allowed}))
            else "Install it in the same environment, or remove it from allow under [plugins].",
            severity="warning",
        )
        for part in parts
        for allowed in (part.parts.get("plugins", {}).get("allow", ()),)
        for name in registry.missing
        if name in allowed
    )


def _register(manager: pluggy.PluginManager, entry: Any) -> PluginFailure | None:
    if manager.has_plugin(entry.name):
        return PluginFailure(entry.name, "another plugin already has this name.")
    try:
        manager.register(entry.load(), name=entry.name)
        known = [name for name in vars(hooks) if name.startswith(f"{hooks.PROJECT}_")]
        for hook in vars(manager.hook).values():
            if hook.get_hookimpls() and not hook.has_spec():
                raise NameAbsence("hook", hook.name, known, hint=f"The hooks are {', '.join(sorted(known))}.")
    except Exception as error:
        if manager.has_plugin(entry.name):
            manager.unregister(name=entry.name)
        why = str(error) if isinstance(error, NameAbsence) else f"{type(error).__name__}: {error}"
        return PluginFailure(entry.name, f"{entry.value} cannot be loaded: {why}")
    return None


def _collect(
    manager: pluggy.PluginManager, statuses: Sequence[PluginStatus], failures: list[PluginFailure]
) -> Registry:
    """Calls the hooks of each plugin separately, so that an exception affects only its plugin."""
    data: list[tuple[str, tuple[pathlib.Path, ...]]] = []
    kinds = ("origins", "transports", "protocols", "sandboxes", "commands")
    named: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    for name, module in manager.list_name_plugin():
        try:
            folders = _ask(manager, module, "ripieno_data")
            if isinstance(folders, str | os.PathLike):
                reason = f"ripieno_data returned '{folders}': return a list of folders, such as ['{folders}']."
                failures.append(PluginFailure(name, reason))
            elif folders:
                paths = tuple(pathlib.Path(folder) for folder in folders)
                absent = [
                    PluginFailure(name, f"ripieno_data names {one}, which is no folder.")
                    for one in paths
                    if not one.is_dir()
                ]
                failures.extend(absent)
                data.append((name, paths))
            for kind, known in named.items():
                provided: Mapping[str, str] = _ask(manager, module, f"ripieno_{kind}") or {}
                for key, path in provided.items():
                    holder = known.setdefault(key, path)
                    if holder != path:
                        failures.append(PluginFailure(name, f"{kind}: {key!r} is taken by {holder}."))
        except Exception as error:
            failures.append(PluginFailure(name, f"a hook failed: {type(error).__name__}: {error}"))
    found: dict[str, Any] = {"data": tuple(data), **named}
    return Registry(**found, plugins=tuple(statuses), failures=tuple(failures))


def _ask(manager: pluggy.PluginManager, module: Any, hook: str) -> Any:
    implementations = getattr(manager.hook, hook).get_hookimpls()
    return next((one.function() for one in implementations if one.plugin is module), None)


def normalize(name: str) -> str:
    """The normalized name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
