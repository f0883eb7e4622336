"""``ripieno trust``: shows what the files of a folder do, and trusts them as they are now, or ends the trust."""

import pathlib
import sys

import click

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import CONFIGURATION_NAME, ENSEMBLES_NAME, TrustStore, find_project, trust_command
from ripieno.canisters.display import clean, count
from ripieno.cli.common.findings import find_start_failures
from ripieno.cli.common.main import confirm, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.trust.declared import declared
from ripieno.cli.trust.watch import watch as watch_folder
from ripieno.exceptions import ConfigurationInvalidity, InputError
from ripieno.storage.places import Places


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option("--remove", is_flag=True, help="Stop trusting the folder.")
@click.option("--yes", is_flag=True, help="Trust without asking.")
@click.option("--watch", is_flag=True, help="Afterwards, trust what you change there while this command runs.")
@common
@pass_settings
def trust(settings: Settings, path: pathlib.Path | None, *, remove: bool, yes: bool, watch: bool) -> None:
    """Trust the configuration and ensembles of a folder, as they are now.

    Trusted files may declare tools. Tools may start programs, and get and send values of your variables. So review the
    files first: this command lists them with all that they run and the variables that they name, and then asks. When a
    file changes, the folder is no longer trusted. With --watch, for a folder of your own, it is: until you end the
    command. It asks about a change that may come from a tool of Ripieno, from git or from another user.

    \b
    Example:
      ripieno trust
      ripieno trust --yes
      ripieno trust --watch
      ripieno trust ~/work/house --remove
    """
    folder = (path or settings.folder).absolute()
    store = TrustStore(Places.of_user().state)
    if remove and watch:
        raise click.UsageError("Give either --remove or --watch.")
    if remove:
        removed = store.remove(folder)
        click.echo(clean(f"{folder} {'is no longer' if removed else 'was not'} trusted."))
        return
    project = find_project(folder)
    if project is None:
        raise InputError(f"Nothing to trust in {folder}: it has neither {CONFIGURATION_NAME} nor {ENSEMBLES_NAME}/.")
    store.check(project)
    if project.part is not None and project.part.file not in project.files:
        say("Nothing is trusted, because this file cannot be read:")
        raise ConfigurationInvalidity(project.part.problems)
    files = count(len(project.files), "file")
    click.echo(clean(f"{folder} has {files}:"))
    registry = load_configuration(settings.config, workspace=settings.workspace).registry
    for line in (*sorted(project.files), "", *(declared(project, registry) or ("It declares and enables no tools.",))):
        click.echo(clean(f"  {line}" if line else ""))
    if not yes:
        if not sys.stdin.isatty():
            command = trust_command(folder, "--yes")
            raise InputError(f"Nothing is trusted yet. Review these files, then run: {command}")
        confirm("Trust them as they are now?", "Nothing was trusted.")
    if find_project(folder) != project:
        raise InputError(f"The files of {folder} have changed since they were listed. Run the command again.")
    store.add(project)
    click.echo(clean(f"Trusted {files} of {folder}."))
    loaded = load_configuration(settings.config, workspace=settings.workspace, project=project)
    failures = find_start_failures(loaded)
    for failure in failures:
        say(str(failure))
    if failures:
        say("Commands in this folder cannot start before that is fixed. To check it: ripieno check")
    if watch:
        watch_folder(project, store, registry)
