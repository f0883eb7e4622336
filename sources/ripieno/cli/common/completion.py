"""Completion in shells: the names of tools, ensembles, agents, profiles and providers.

Nothing is connected, and a failure completes nothing: a message would end up within the line that a person types.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import click

#: What ``shell_complete`` of a parameter takes.
Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def completion(values: Callable[[click.Context], Iterable[str]]) -> Completion:
    """Completes with those of the values that begin as typed."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        with contextlib.suppress(Exception):
            return [value for value in values(context) if value.startswith(incomplete)]
        return []

    return complete


def _loaded(context: click.Context) -> Any:
    """The configuration for the options before the cursor: ``context.obj`` are the command line's settings."""
    from ripieno.assembly.configuration import load_configuration, provision
    from ripieno.assembly.trust import find_project

    settings = context.obj
    project = find_project(settings.folder)
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project)
    return loaded if settings.profile is None else provision(loaded, profile=settings.profile)


def _tools(context: click.Context) -> Sequence[str]:
    ensembles = sorted(_loaded(context).ensembles, key=lambda one: str(one.name))
    return [f"{one.name}.{invoker.name}" for one in ensembles for invoker in one.invokers if invoker.enabled]


complete_tool = completion(_tools)
complete_ensemble = completion(lambda context: sorted(one.name for one in _loaded(context).ensembles))
complete_agent = completion(lambda context: sorted(_loaded(context).configuration.agents))
complete_profile = completion(lambda context: sorted(_loaded(context).profiles))


def _models(context: click.Context) -> Sequence[str]:
    """The models that the configuration names, then the providers, before whose models is a slash."""
    loaded = _loaded(context)
    configuration = loaded.configuration
    agents = [agent.model for agent in configuration.agents.values()]
    named = {*filter(None, (configuration.model, *configuration.fallback, *agents))}
    return [*sorted(named), *(f"{name}/" for name in sorted(loaded.providers))]


def _scores(_: click.Context) -> Sequence[str]:
    from ripieno.toolset import DATA

    return sorted(one.stem for one in (DATA / "scores").glob("*.toml"))


complete_model = completion(_models)
complete_score = completion(_scores)
complete_connected = completion(
    lambda context: sorted(
        one.name
        for one in _loaded(context).ensembles
        if one.connection is not None and one.connection.origin != "python"
    )
)
complete_provider = completion(lambda context: sorted(_loaded(context).providers))
