"""The manifest: the tools that an agent's environment needs, by category and by task, from a file of the package."""

import dataclasses
import functools
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from frozendict import frozendict

from ripieno.exceptions import NameAbsence
from ripieno.toolset import DATA


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The needs of a task: ensembles, and tools by their exposed names."""

    ensembles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Names of tools by category, and the needs of languages and kinds of tasks (seed 000, sections 11.2 to 11.6).

    ``minimum`` tools make a category. ``matrix`` has the categories of each column. ``fallbacks`` are substitutes for
    tools; ``shells`` are substitutes for the categories in ``shell_categories``.
    """

    version: str
    minimum: int
    categories: frozendict[str, tuple[str, ...]]
    matrix: frozendict[str, tuple[str, ...]]
    languages: frozendict[str, Need]
    kinds: frozendict[str, Need]
    fallbacks: frozendict[str, tuple[str, ...]]
    shells: tuple[str, ...]
    shell_categories: tuple[str, ...]

    def category_of(self, tool: str) -> str | None:
        """The category of a tool."""
        return next((name for name, tools in self.categories.items() if tool in tools), None)

    def need_of(self, languages: Iterable[str] = (), kinds: Iterable[str] = ()) -> Need:
        """The needs of a task in these languages and of these kinds, each name once. Errors: ``NameAbsence``."""
        needs = [_named("language", one, self.languages) for one in languages]
        needs += [_named("kind of task", one, self.kinds) for one in kinds]
        return Need(
            ensembles=tuple(dict.fromkeys(name for need in needs for name in need.ensembles)),
            tools=tuple(dict.fromkeys(name for need in needs for name in need.tools)),
        )


def _named(what: str, name: str, known: Mapping[str, Need]) -> Need:
    if name not in known:
        raise NameAbsence(what, name, known)
    return known[name]


@functools.cache
def read_manifest() -> Manifest:
    """The manifest of the package."""
    mapping = tomllib.loads((DATA / "manifests" / "environment.toml").read_text(encoding="utf-8"))

    def lists(table: Mapping[str, Any]) -> frozendict[str, tuple[str, ...]]:
        return frozendict({name: tuple(names) for name, names in table.items()})

    def needs(table: Mapping[str, Any]) -> frozendict[str, Need]:
        return frozendict({name: Need(**lists(need)) for name, need in table.items()})

    return Manifest(
        version=mapping["version"],
        minimum=mapping["minimum"],
        categories=lists(mapping["categories"]),
        matrix=lists(mapping["matrix"]),
        languages=needs(mapping["languages"]),
        kinds=needs(mapping["kinds"]),
        fallbacks=lists(mapping["fallbacks"]),
        shells=tuple(mapping["shell"]["tools"]),
        shell_categories=tuple(mapping["shell"]["categories"]),
    )
