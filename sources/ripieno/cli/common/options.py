"""Options of every command (--config, --profile, --workspace, --debug), and --format for tables."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import click

from ripieno.cli.common.completion import complete_profile

Command = TypeVar("Command", bound=Callable[..., Any])
Format = Literal["table", "json"]
#: The types of options that name a file to write or read, and a folder to write to.
FILE = click.Path(dir_okay=False, path_type=pathlib.Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)
FOLDER = click.Path(file_okay=False, path_type=pathlib.Path)


class Number(click.IntRange):
    """The type of options that are whole numbers in a range."""

    name = "number"


@dataclasses.dataclass(slots=True)
class Settings:
    """The values of the common options. ``workspace`` is absolute."""

    config: pathlib.Path | None = None
    profile: str | None = None
    workspace: pathlib.Path | None = None
    debug: bool = False
    #: Whether an error is one JSON object.
    json: bool = False
    #: Whether the command records its calls in the journal.
    journal: bool = False
    #: For a plugin's command: makes the ``Assembly`` of the command line, not entered yet, with these options and a
    #: trusted project's files; with ``confirmer=``, calls are asked about. Errors: ``AssemblyFailure``.
    assemble: Callable[..., Any] | None = None

    @property
    def folder(self) -> pathlib.Path:
        """The folder in which project files are searched."""
        return self.workspace or pathlib.Path.cwd()

    @property
    def selection(self) -> tuple[str, ...]:
        """The options that select the configuration, for a further command about the same."""
        config = () if self.config is None else ("--config", str(self.config))
        return (*config, *(() if self.profile is None else ("--profile", self.profile)))

    @property
    def given(self) -> tuple[str, ...]:
        """The options that select the configuration and the workspace."""
        return (*self.selection, *(() if self.workspace is None else ("--workspace", str(self.workspace))))


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Stores an option that was given, before or after the command's name."""
    if value is not None and value is not False:
        name: str = parameter.name or ""
        setattr(context.ensure_object(Settings), name, value.absolute() if isinstance(value, pathlib.Path) else value)


_common = functools.partial(click.option, callback=_keep, expose_value=False)
_COMMON = (
    _common(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=pathlib.Path),
        help="A configuration file that overrides your own. Naming it means that you trust it.",
    ),
    _common(
        "--profile",
        metavar="NAME",
        shell_complete=complete_profile,
        help="Enable the ensembles of this profile instead of the configured ones: starter (the default), minimal, "
        "standard, full, swe-agent, openhands, custom, or your own.",
    ),
    _common(
        "--workspace",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
        help="The folder in which tools work, instead of the current one.",
    ),
    _common("--debug", is_flag=True, help="Show the traceback of an error."),
)


def add_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    """Adds options in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def common(command: Command) -> Command:
    """Adds the common options."""
    return add_options(command, _COMMON)


def _keep_journal(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    context.ensure_object(Settings).journal = not value


#: Adds ``--no-journal`` to a command that calls tools: it records them, unless the configuration disables that.
journaled = click.option(
    "--no-journal",
    is_flag=True,
    callback=_keep_journal,
    expose_value=False,
    help="Do not record the calls in the journal.",
)


#: Adds ``--format``; the command receives it as ``output``.
formats = click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="The output format.",
)


def add_format(command: click.Command) -> None:
    """Adds ``--format`` for errors to a built-in command, and to the commands of a group, that have none."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            add_format(one)
    elif not any("--format" in one.opts for one in command.params):
        choice = click.Choice(("text", "json"))
        help_text = "Show an error as text, or as one JSON object."
        option = click.Option(("--format",), type=choice, default="text", expose_value=False, help=help_text)
        command.params.append(option)


pass_settings = click.make_pass_decorator(Settings, ensure=True)
