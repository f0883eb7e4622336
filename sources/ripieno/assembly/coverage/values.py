"""The coverage of the manifest by an environment: tools, categories, ensembles, and one task."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from frozendict import frozendict

from ripieno.values import Value

#: Whether a selected thing is available; ``no`` if it is not selected, ``not granted`` if it lacks only a grant.
State = Literal["yes", "no", "not granted", "missing"]


class ToolStatus(Value, kw_only=True):
    """One tool. ``ensemble`` is the enabled ensemble that declares it, or None.

    ``reason`` is why it cannot be called, or None. ``granted`` is False if it lacks only the operator's grant.
    ``fallback`` has the tools that can be called instead.
    """

    name: str
    ensemble: str | None = None
    described: bool = False
    reason: str | None = None
    granted: bool = True
    fallback: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether an enabled ensemble declares it."""
        return self.ensemble is not None

    @property
    def callable(self) -> bool:
        """Whether it would be offered."""
        return self.present and self.reason is None

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        derived = {"present": self.present, "callable": self.callable, "fallback": list(self.fallback)}
        return {**dataclasses.asdict(self), **derived}


class CategoryStatus(Value, kw_only=True):
    """The tools of one category, which needs ``minimum`` tools. ``selected``: the configuration selects it."""

    name: str
    tools: tuple[ToolStatus, ...]
    selected: bool
    minimum: int

    @property
    def present(self) -> int:
        """The number of tools that are declared with a description."""
        return sum(tool.present and tool.described for tool in self.tools)

    @property
    def callable(self) -> int:
        """The number of tools that can be called."""
        return sum(tool.callable for tool in self.tools)

    @property
    def percent(self) -> float:
        """The percentage of its tools that can be called."""
        return percent(self.tools)

    @property
    def state(self) -> State:
        """``missing`` if it is selected and has too few tools, or none that can be called, for any other reason."""
        if not self.selected:
            return "no"
        if self.present < self.minimum:
            return "missing"
        return "yes" if self.callable else "missing" if self.granted else "not granted"

    @property
    def granted(self) -> bool:
        """Whether none of its tools lacks only a grant."""
        return all(tool.granted for tool in self.tools)

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "tools_total": len(self.tools),
            "tools_present": self.present,
            "tools_callable": self.callable,
            "coverage_percent": self.percent,
            "tools": [tool.mapping() for tool in self.tools],
        }


class EnsembleStatus(Value, kw_only=True):
    """An ensemble that is needed as a whole. ``reason`` is why it is unavailable, or None."""

    name: str
    reason: str | None = None

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        return {"name": self.name, "state": "yes" if self.reason is None else "missing", "reason": self.reason}


class TaskStatus(Value, kw_only=True):
    """The needs of one task. ``included`` are ensembles that the configuration would have to include for it."""

    names: tuple[str, ...]
    tools: tuple[ToolStatus, ...] = ()
    ensembles: tuple[EnsembleStatus, ...] = ()
    included: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether everything is available."""
        return all(tool.callable for tool in self.tools) and all(one.reason is None for one in self.ensembles)

    def summary(self) -> str:
        """The status in a sentence."""
        lost = [one.name for one in self.ensembles if one.reason is not None]
        lost += [tool.name for tool in self.tools if not tool.callable]
        return f"Missing for {', '.join(self.names)}: {', '.join(dict.fromkeys(lost)) or 'nothing'}."

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        return {
            "for": list(self.names),
            "ready": self.ready,
            "include": list(self.included),
            "coverage_percent": percent(self.tools),
            "tools": [tool.mapping() for tool in self.tools],
            "ensembles": [one.mapping() for one in self.ensembles],
        }


class Coverage(Value, kw_only=True):
    """The coverage of the manifest, and of the ensembles that the profile selects besides.

    ``complete``, ``missing_categories``, ``missing_tools`` and ``coverage_percent`` are as in seed 000, section 11.4.
    ``ensembles`` are those outside the categories of the manifest, ``configurable`` those that could be included.
    """

    categories: tuple[CategoryStatus, ...]
    ensembles: tuple[EnsembleStatus, ...] = ()
    matrix: frozendict[str, State] = frozendict()
    profile: str | None = None
    configurable: tuple[str, ...] = ()
    task: TaskStatus | None = None
    version: str = ""

    @property
    def tools(self) -> tuple[ToolStatus, ...]:
        """All tools of the manifest."""
        return tuple(tool for category in self.categories for tool in category.tools)

    @property
    def coverage_percent(self) -> float:
        """The percentage of the manifest's tools that can be called."""
        return percent(self.tools)

    @property
    def complete(self) -> bool:
        """Whether every category is available, with at least one tool that can be called."""
        return all(category.state == "yes" for category in self.categories)

    @property
    def missing_categories(self) -> tuple[CategoryStatus, ...]:
        """The categories that are not available, also those that are not selected."""
        return tuple(category for category in self.categories if category.state != "yes")

    @property
    def missing_tools(self) -> tuple[ToolStatus, ...]:
        """The tools of the manifest that cannot be called, also those that are not selected."""
        return tuple(tool for tool in self.tools if not tool.callable)

    @property
    def lacking_tools(self) -> tuple[ToolStatus, ...]:
        """The tools of the selected categories that cannot be called."""
        return tuple(
            tool for category in self.categories if category.selected for tool in category.tools if not tool.callable
        )

    @property
    def fulfilled(self) -> bool:
        """Whether every selected category and ensemble is available or waits for a grant, and the task is ready."""
        return (
            all(category.state != "missing" for category in self.categories)
            and all(one.reason is None for one in self.ensembles)
            and (self.task is None or self.task.ready)
        )

    def summary(self) -> str:
        """The coverage in one or two sentences."""
        there = sum(category.state == "yes" for category in self.categories)
        what = "The environment" if self.profile is None else f"The profile {self.profile!r}"
        text = f"{what} has {there} of {len(self.categories)} categories, and {self.coverage_percent:g} % of the tools."
        lost = [category.name for category in self.categories if category.state == "missing"]
        lost += [one.name for one in self.ensembles if one.reason is not None]
        known = {tool.name for category in self.categories if category.state == "missing" for tool in category.tools}
        lost += [tool.name for tool in self.lacking_tools if tool.name not in known and tool.granted]
        text = f"{text} Missing: {', '.join(lost)}." if lost else text
        others = [category.name for category in self.categories if not category.selected]
        if 2 * len(others) > len(self.categories):
            text = text if self.profile is None else f"{text} This profile is small on purpose."
        elif others:
            text = f"{text} Not selected: {', '.join(others)}."
        waiting = [category.name for category in self.categories if category.selected and not category.granted]
        text = f"{text} Not granted: {', '.join(waiting)}." if waiting else text
        return text if self.task is None else f"{text} {self.task.summary()}"

    def mapping(self) -> dict[str, Any]:
        """The form in JSON; ``complete`` to ``coverage_percent`` as in seed 000, section 11.4."""
        return {
            "profile": self.profile,
            "manifest_version": self.version,
            "complete": self.complete,
            "missing_categories": [one.name for one in self.missing_categories],
            "missing_tools": [tool.name for tool in self.missing_tools],
            "coverage_percent": self.coverage_percent,
            "fulfilled": self.fulfilled,
            "categories_present": sum(one.state == "yes" for one in self.categories),
            "categories_total": len(self.categories),
            "tools_present": sum(tool.present for tool in self.tools),
            "tools_described": sum(tool.described for tool in self.tools),
            "tools_callable": sum(tool.callable for tool in self.tools),
            "tools_total": len(self.tools),
            "matrix": dict(self.matrix),
            "configurable": list(self.configurable),
            "categories": [one.mapping() for one in self.categories],
            "ensembles": [one.mapping() for one in self.ensembles],
            "task": None if self.task is None else self.task.mapping(),
        }


def percent(tools: Iterable[ToolStatus]) -> float:
    """The percentage of these that can be called, to one decimal place; 100 for none."""
    states = [tool.callable for tool in tools]
    # Rounded down, so that 100 means all.
    return int(1000 * sum(states) / len(states)) / 10 if states else 100.0
