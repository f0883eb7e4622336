"""``ripieno trust``: agrees to the files that a folder brings along, as they are now, or takes that back."""

import pathlib

import click

from ripieno.assembly.configuration import Places
from ripieno.assembly.trust import CONFIGURATION_NAME, ENSEMBLES_NAME, TrustStore, find_project
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.conducting.observers.console import clean
from ripieno.exceptions import InputError


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option("--remove", is_flag=True, help="Take the trust back.")
@common
@pass_settings
def trust(settings: Settings, path: pathlib.Path | None, remove: bool) -> None:
    """Agree to the files that a folder brings along, as they are now.

    Trusted files may declare tools, and those may start programs. When a file changes, the folder is untrusted
    again. Look at them first: the list says which they are.

    \b
    Example:
      ripieno trust
      ripieno trust ~/work/house --remove
    """
    folder = (path or settings.folder).absolute()
    store = TrustStore(Places.of_user().state)
    if remove:
        gone = store.remove(folder)
        click.echo(
            clean(f"{folder} is {'no longer' if gone else 'not'} trusted{'' if gone else ', nor was it before'}.")
        )
        return
    project = find_project(folder)
    if project is None:
        raise InputError(
            f"There is nothing to trust in {folder}: it has neither {CONFIGURATION_NAME} nor {ENSEMBLES_NAME}/."
        )
    store.add(project)
    click.echo(clean(f"Trusted, as they are now, {len(project.files)} files of {folder}:"))
    for file in sorted(project.files):
        click.echo(clean(f"  {file}"))
    click.echo("What they may never set, trusted or not, is listed by: ripieno doctor")
    if project.part is not None:
        for problem in project.part.problems:
            say(str(problem))
