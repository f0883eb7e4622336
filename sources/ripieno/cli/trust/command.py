"""``ripieno trust``: trusts the files of a folder, as they are now, or ends the trust."""

import pathlib

import click

from ripieno.assembly.configuration import Places, load_configuration
from ripieno.assembly.trust import CONFIGURATION_NAME, ENSEMBLES_NAME, TrustStore, find_project
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.tables import count
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import InputError


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option("--remove", is_flag=True, help="Stop trusting the folder.")
@common
@pass_settings
def trust(settings: Settings, path: pathlib.Path | None, remove: bool) -> None:
    """Trust the configuration and ensembles of a folder, as they are now.

    Trusted files may declare tools, and tools may start programs, so review the files first: this command lists them.
    When a file changes, the folder is no longer trusted.

    \b
    Example:
      ripieno trust
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
    store.add(project)
    click.echo(clean(f"Trusted {count(len(project.files), 'file')} of {folder}, as they are now:"))
    for file in sorted(project.files):
        click.echo(clean(f"  {file}"))
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project)
    for failure in loaded.failures:
        say(str(failure))
    if loaded.failures:
        say("Commands in this folder cannot start before that is fixed. To check it: ripieno check")
