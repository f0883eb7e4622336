"""How much of the manifest an environment covers: tools, categories, ensembles, and one task."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from frozendict import frozendict

#: Of what was selected, whether it can be called; ``no`` for what was not selected.
State = Literal["yes", "no", "missing"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolStatus:
    """One tool. ``ensemble`` declares it, and plays; None where none does.

    ``reason`` says why it cannot be called; None when it can. ``granted`` is False where all is there that it needs but
    the operator's word. ``fallback`` are tools that can be called instead.
    """

    name: str
    ensemble: str | None = None
    described: bool = False
    reason: str | None = None
    granted: bool = True
    fallback: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether an ensemble that was selected declares it."""
        return self.ensemble is not None

    @property
    def callable(self) -> bool:
        """Whether it would be offered."""
        return self.present and self.reason is None

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        return {
            "name": self.name,
            "ensemble": self.ensemble,
            "present": self.present,
            "described": self.described,
            "callable": self.callable,
            "granted": self.granted,
            "reason": self.reason,
            "fallback": list(self.fallback),
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CategoryStatus:
    """The tools of one category. ``selected``: whether it is wanted at all; ``minimum`` tools make one."""

    name: str
    tools: tuple[ToolStatus, ...]
    selected: bool
    minimum: int

    @property
    def present(self) -> int:
        """How many tools are declared, with a description."""
        return sum(tool.present and tool.described for tool in self.tools)

    @property
    def callable(self) -> int:
        """How many tools can be called."""
        return sum(tool.callable for tool in self.tools)

    @property
    def percent(self) -> float:
        """How many of its tools can be called, in a hundred."""
        return percent(self.tools)

    @property
    def state(self) -> State:
        """Missing is one that is selected, and has too few tools, or none that could be called once it is granted."""
        if not self.selected:
            return "no"
        there = any(tool.callable or not tool.granted for tool in self.tools)
        return "yes" if self.present >= self.minimum and there else "missing"

    @property
    def granted(self) -> bool:
        """Whether no tool of it waits for the operator's word."""
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleStatus:
    """An ensemble that is wanted as a whole. ``reason`` says why it does not play."""

    name: str
    reason: str | None = None

    def mapping(self) -> dict[str, Any]:
        """The form in JSON."""
        return {"name": self.name, "state": "yes" if self.reason is None else "missing", "reason": self.reason}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """What one task needs. ``included`` are ensembles that play for it alone: a configuration has to include them."""

    names: tuple[str, ...]
    tools: tuple[ToolStatus, ...] = ()
    ensembles: tuple[EnsembleStatus, ...] = ()
    included: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether all of it is there."""
        return all(tool.callable for tool in self.tools) and all(one.reason is None for one in self.ensembles)

    def summary(self) -> str:
        """It in a sentence."""
        lost = [one.name for one in self.ensembles if one.reason is not None]
        lost += [tool.name for tool in self.tools if not tool.callable]
        what = f"For {', '.join(self.names)}"
        return f"{what} is missing: {', '.join(dict.fromkeys(lost))}." if lost else f"{what} all is there."

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What an environment has of the manifest, and of what its profile selects beside it.

    ``ensembles`` are those that are no category of the manifest, ``configurable`` those that could be included.
    """

    categories: tuple[CategoryStatus, ...]
    ensembles: tuple[EnsembleStatus, ...] = ()
    matrix: frozendict[str, State] = frozendict()  # noqa: RUF009
    profile: str | None = None
    configurable: tuple[str, ...] = ()
    task: TaskStatus | None = None
    version: str = ""

    @property
    def tools(self) -> tuple[ToolStatus, ...]:
        """All tools of the manifest."""
        return tuple(tool for category in self.categories for tool in category.tools)

    @property
    def percent(self) -> float:
        """How many tools of the manifest can be called, in a hundred."""
        return percent(self.tools)

    @property
    def complete(self) -> bool:
        """Whether every category is there."""
        return all(category.state == "yes" for category in self.categories)

    @property
    def missing_tools(self) -> tuple[ToolStatus, ...]:
        """The tools that cannot be called, of the categories that are selected."""
        return tuple(
            tool for category in self.categories if category.selected for tool in category.tools if not tool.callable
        )

    @property
    def fulfilled(self) -> bool:
        """Whether what was selected is there: every category, every ensemble, and what the task needs."""
        return (
            all(category.state != "missing" for category in self.categories)
            and all(one.reason is None for one in self.ensembles)
            and (self.task is None or self.task.ready)
        )

    def summary(self) -> str:
        """It in one or two sentences."""
        there = sum(category.state == "yes" for category in self.categories)
        what = "The environment" if self.profile is None else f"The profile {self.profile!r}"
        text = f"{what} has {there} of {len(self.categories)} categories, and {self.percent:g} % of the tools."
        lost = [category.name for category in self.categories if category.state == "missing"]
        lost += [one.name for one in self.ensembles if one.reason is not None]
        known = {tool.name for category in self.categories if category.state == "missing" for tool in category.tools}
        lost += [tool.name for tool in self.missing_tools if tool.name not in known and tool.granted]
        text = f"{text} Missing: {', '.join(lost)}." if lost else text
        waiting = [category.name for category in self.categories if category.selected and not category.granted]
        text = f"{text} Not granted: {', '.join(waiting)}." if waiting else text
        return text if self.task is None else f"{text} {self.task.summary()}"

    def mapping(self) -> dict[str, Any]:
        """The form in JSON; ``complete`` to ``coverage_percent`` as in seed 000, section 11.4."""
        return {
            "profile": self.profile,
            "manifest_version": self.version,
            "complete": self.complete,
            "missing_categories": [one.name for one in self.categories if one.state != "yes"],
            "missing_tools": [tool.name for tool in self.tools if not tool.callable],
            "coverage_percent": self.percent,
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
    """How many of these can be called, in a hundred, to one place; all of none is a hundred."""
    states = [tool.callable for tool in tools]
    # What is nearly all is not all.
    return int(1000 * sum(states) / len(states)) / 10 if states else 100.0
