"""Completion in shells: the names of tools, their arguments, ensembles, agents, profiles, models and scores.

Nothing is connected, and a failure completes nothing: a message would end up within the line that a person types.
"""

import contextlib
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import click

#: What ``shell_complete`` of a parameter takes.
Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def completion(
    values: Callable[[click.Context], Iterable[str]], typed: Callable[[str], Iterable[str]] | None = None
) -> Completion:
    """Completes with those of the values that begin as typed. ``typed`` has further ones, for what was typed."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        with contextlib.suppress(Exception):
            further = () if typed is None else typed(incomplete)
            return [value for value in (*values(context), *further) if value.startswith(incomplete)]
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


def _arguments(context: click.Context) -> Sequence[str]:
    """The names of the tool's arguments that were not given. Tools of a server are unknown without a connection."""
    ensemble, _, tool = context.params["tool"].partition(".")
    given = {pair.partition("=")[0] for pair in context.params.get("pairs") or ()}
    (invoker,) = [
        one
        for descriptor in _loaded(context).ensembles
        for one in descriptor.invokers
        if (descriptor.name, one.name) == (ensemble, tool)
    ]
    hidden = {*given, *invoker.policy.presets}
    return [f"{name}=" for name in invoker.arguments.get("properties", {}) if name not in hidden]


complete_tool = completion(_tools)
complete_argument = completion(_arguments)
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


def _score_files(typed: str) -> Iterable[str]:
    """The scores in the folder that was typed, and its folders, with a slash at the end."""
    folder = typed[: typed.rfind("/") + 1]
    for one in sorted(pathlib.Path(folder or ".").iterdir()):
        if one.is_dir() and not one.name.startswith("."):
            yield f"{folder}{one.name}/"
        elif one.suffix == ".toml" and one.is_file() and b"[score]" in one.read_bytes():
            yield f"{folder}{one.name}"


def _scripted_models(typed: str) -> Iterable[str]:
    """Those of ``_score_files`` as models; before that, what they begin with."""
    prefix = "score:"
    if not typed.startswith(prefix):
        return (prefix,)
    return (f"{prefix}{name}" for name in _score_files(typed.removeprefix(prefix)))


complete_model = completion(_models, _scripted_models)
complete_score = completion(_scores, _score_files)
complete_connected = completion(
    lambda context: sorted(
        one.name
        for one in _loaded(context).ensembles
        if one.connection is not None and one.connection.origin != "python"
    )
)
complete_provider = completion(lambda context: sorted(_loaded(context).providers))
