"""Errors in agents and models that can be found although other parts of the configuration have errors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ripieno.assembly.availability import absence
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors.loading import read_toml
from ripieno.descriptors.names import matches
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import dotted, spelling
from ripieno.exceptions import ConfigurationInvalidity, Problem
from ripieno.jsonvalues import is_list, is_table


def check_agents(subject: Subject) -> Iterator[Problem]:
    """Errors for unknown providers, and for patterns under ``tools`` of an agent that match no tool."""
    loaded = subject.loaded
    # The restricted part of a project that is not trusted has no agents; a part with errors lacks the whole table.
    files = [part.file for part in loaded.parts if part.parts.keys() & {"agents", "model"} or part.problems]
    broken = [mapping for _, mapping in _mappings(one.file for one in subject.problems)]
    ensembles, providers = _names(broken, "ensemble"), _names(broken, "provider")
    for file, mapping in _mappings(files):
        for path, value in _values(mapping):
            if path[2:3] == ("tools",):
                yield from _check_pattern(subject, ensembles, file, path, value)
            elif loaded.failures:
                known = {*providers, *_names_beneath(mapping, "providers")}
                yield from _check_provider(subject, known, file, path, value)


def _mappings(files: Iterable[str | None]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files that are TOML, with their mappings."""
    for file in dict.fromkeys(files):
        try:
            if file is not None:
                yield file, read_toml(file).mapping
        except ConfigurationInvalidity:
            continue


def _values(mapping: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The models and the patterns of each agent, and the models of all, with their paths."""
    agents: Any = mapping.get("agents")
    models: Any = mapping.get("model")
    if is_table(models):
        others: Any = models.get("fallback")
        found: list[tuple[Path, Any]] = [(("model", "default"), models.get("default"))]
        found += [(("model", "fallback", index), one) for index, one in enumerate(others if is_list(others) else ())]
        yield from ((path, one) for path, one in found if isinstance(one, str))
    for name, agent in agents.items() if is_table(agents) else ():
        if not is_table(agent):
            continue
        if isinstance(agent.get("model"), str):
            yield ("agents", name, "model"), agent["model"]
        for key in ("fallback", "tools"):
            items: Any = agent.get(key)
            for index, item in enumerate(items if is_list(items) else ()):
                if isinstance(item, str):
                    yield ("agents", name, key, index), item


def _check_provider(subject: Subject, more: set[str], file: str, path: Path, model: str) -> Iterator[Problem]:
    """Without other failures, loading reports this. ``more`` are providers whose tables or files have errors."""
    provider, known = model.partition("/")[0], {*subject.loaded.providers, *more}
    reported = any((one.file, one.key) == (file, dotted(path)) for one in subject.problems)
    if provider not in known and not reported:
        hint = spelling(provider, known) or "Add a table [providers.NAME]. To list the providers: ripieno providers"
        message = f"{dotted(path)} names the provider {provider!r}, which does not exist"
        yield finding(file, path, message, hint, "error")


def _check_pattern(subject: Subject, unread: list[str], file: str, path: Path, pattern: str) -> Iterator[Problem]:
    """``unread`` are the ensembles whose files have errors."""
    loaded = subject.loaded
    # After a failure, the selection may be incomplete.
    ensembles = [*loaded.known.values()] if loaded.failures else [*loaded.ensembles]
    # The tools of a connection are unknown until it is connected.
    open_ended = [one.name for one in ensembles if one.connection is not None]
    open_ended += unread
    if any(matches(pattern.partition(".")[0], f"{name}.") for name in open_ended):
        return
    identities = [f"{one.name}.{tool.name}" for one in ensembles for tool in one.invokers if tool.enabled]
    if not any(matches(pattern, one) for one in identities):
        hint = absence(loaded, pattern.partition(".")[0]) if not _is_selected(loaded, pattern) else ""
        hint = hint or spelling(pattern, identities) or "To list the tools: ripieno tools"
        yield finding(file, path, f"{dotted(path)} is the pattern {pattern!r}, which matches no tool", hint, "error")


def _is_selected(loaded: LoadedConfiguration, pattern: str) -> bool:
    return pattern.partition(".")[0] in {one.name for one in loaded.ensembles}


def _names(mappings: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    """The names in the headers of files of ensembles or providers."""
    headers: list[Any] = [mapping.get(kind) for mapping in mappings]
    return [str(one["name"]) for one in headers if is_table(one) and "name" in one]


def _names_beneath(mapping: Mapping[str, Any], table: str) -> list[str]:
    tables: Any = mapping.get(table)
    return [*tables] if is_table(tables) else []
