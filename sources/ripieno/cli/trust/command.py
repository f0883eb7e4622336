"""``ripieno trust``: shows what the files of a folder do, and trusts them as they are now, or ends the trust."""

import pathlib
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ripieno.assembly.configuration import Places, load_configuration
from ripieno.assembly.trust import CONFIGURATION_NAME, ENSEMBLES_NAME, Project, TrustStore, find_project
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import count
from ripieno.conducting.observers.console import clean
from ripieno.descriptors import EnsembleDescriptor
from ripieno.exceptions import InputError


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option("--remove", is_flag=True, help="Stop trusting the folder.")
@click.option("--yes", is_flag=True, help="Trust without asking.")
@common
@pass_settings
def trust(settings: Settings, path: pathlib.Path | None, *, remove: bool, yes: bool) -> None:
    """Trust the configuration and ensembles of a folder, as they are now.

    Trusted files may declare tools, and tools may start programs, so review the files first: this command lists them
    with all that they run, and then asks. When a file changes, the folder is no longer trusted.

    \b
    Example:
      ripieno trust
      ripieno trust --yes
      ripieno trust ~/work/house --remove
    """
    folder = (path or settings.folder).absolute()
    store = TrustStore(Places.of_user().state)
    if remove:
        removed = store.remove(folder)
        click.echo(clean(f"{folder} {'is no longer' if removed else 'was not'} trusted."))
        return
    project = find_project(folder)
    if project is None:
        raise InputError(f"Nothing to trust in {folder}: it has neither {CONFIGURATION_NAME} nor {ENSEMBLES_NAME}/.")
    store.check(project)
    files = count(len(project.files), "file")
    click.echo(clean(f"{folder} has {files}:"))
    for line in (*sorted(project.files), "", *(_declared(project) or ("It declares no tools.",))):
        click.echo(clean(f"  {line}" if line else ""))
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing is trusted yet. Review these files, then run: ripieno trust --yes")
        click.confirm("Trust them as they are now?", abort=True, err=True)
    if find_project(folder) != project:
        raise InputError(f"The files of {folder} have changed since they were listed. Run the command again.")
    store.add(project)
    click.echo(clean(f"Trusted {files} of {folder}."))
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project)
    for failure in loaded.failures:
        say(str(failure))
    if loaded.failures:
        say("Commands in this folder cannot start before that is fixed. To check it: ripieno check")


def _declared(project: Project) -> list[str]:
    """A line for each server and tool: its name, and what it runs, with which rights."""
    return [line for descriptor in project.descriptors for line in _lines(descriptor)]


def _lines(descriptor: EnsembleDescriptor) -> Iterator[str]:
    if descriptor.connection is not None:
        yield f"{descriptor.name}: {_run(descriptor.connection.origin, descriptor.connection.settings, confined=False)}"
    for invoker in descriptor.invokers:
        settings = invoker.invocable.settings
        if invoker.invocable.origin == "python" and "function" not in settings:
            settings = settings.set("function", f"{descriptor.module}:{invoker.name}")
        ran = _run(invoker.invocable.origin, settings, confined=settings.get("confined", not descriptor.own))
        yield f"{descriptor.name}.{invoker.name}: {ran}"


def _run(origin: str, settings: Mapping[str, Any], *, confined: bool) -> str:
    argv = settings.get("argv") or settings.get("command")
    if argv:
        words = [shlex.quote(one) if isinstance(one, str) else f"[{shlex.join(one.get('argv', ()))}]" for one in argv]
        variables = [f"{name}={shlex.quote(str(value))}" for name, value in settings.get("environment", {}).items()]
        return f"runs {' '.join((*variables, *words))}, {'confined' if confined else 'with all your rights'}"
    function = settings.get("function") or settings.get("factory")
    if function:
        return f"runs {function} in this program"
    return f"{origin} {settings.get('url', '')}".strip()
