"""What applies to every command: --config, --profile, --workspace, --debug; and --format, wherever a table is shown."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Format = Literal["table", "json"]


@dataclasses.dataclass(slots=True)
class Settings:
    """The common options, wherever on the line they stood. ``workspace`` is absolute."""

    config: pathlib.Path | None = None
    profile: str | None = None
    workspace: pathlib.Path | None = None
    debug: bool = False

    @property
    def folder(self) -> pathlib.Path:
        """The folder whose own files are looked for."""
        return self.workspace or pathlib.Path.cwd()


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keeps an option that was given; the other place of the line must not take it back."""
    if value is not None and value is not False:
        name: str = parameter.name or ""
        setattr(context.ensure_object(Settings), name, value.absolute() if isinstance(value, pathlib.Path) else value)


def common(command: Command) -> Command:
    """Adds the options that every command has."""
    options = (
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=pathlib.Path),
            callback=_keep,
            expose_value=False,
            help="A configuration file over the user's own. Naming it is consent to all it says.",
        ),
        click.option(
            "--profile",
            metavar="NAME",
            callback=_keep,
            expose_value=False,
            help="Play the ensembles of this profile, whatever the configuration selects: minimal, standard, full, "
            "swe-agent, openhands, or one of your own.",
        ),
        click.option(
            "--workspace",
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
            callback=_keep,
            expose_value=False,
            help="The folder that tools work in, instead of the current one.",
        ),
        click.option(
            "--debug",
            is_flag=True,
            callback=_keep,
            expose_value=False,
            help="Show the traceback of an error.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def formats(command: Command) -> Command:
    """Adds ``--format``; the command gets it as ``output``."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(("table", "json")),
        default="table",
        show_default=True,
        help="How to print it.",
    )(command)


pass_settings = click.make_pass_decorator(Settings, ensure=True)
