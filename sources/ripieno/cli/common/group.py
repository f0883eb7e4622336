"""The group of all commands: built-in ones by a table, those of allowed plugins behind it, each imported when named."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

from ripieno.cli.common import exit_codes
from ripieno.cli.common.options import Settings, common

#: Each command: the module and name of it, and what ``ripieno --help`` says, so that help imports none of them.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("ripieno.cli.demo.command:demo", "Watch a scripted model call real tools over real wires; no key needed."),
    "ensembles": ("ripieno.cli.tools.list:ensembles", "List the ensembles: which play, which do not, and why."),
    "tools": ("ripieno.cli.tools.list:tools", "List the tools that a model is offered."),
    "explain": (
        "ripieno.cli.tools.schemas:explain",
        "Show what a model is sent of one tool, and what of its schema is lost.",
    ),
    "invoke": ("ripieno.cli.tools.invoke:invoke", "Call one tool yourself."),
    "check": (
        "ripieno.cli.check.command:check",
        "Check descriptors and configuration, and say everything that is wrong.",
    ),
    "undo": (
        "ripieno.cli.undo:undo",
        "Take back the last N changes that tools made in the workspace.",
    ),
    "new": ("ripieno.cli.tools.new:new", "Make something new that works already: an ensemble."),
    "import": ("ripieno.cli.importing.command:import_", "Make ensembles of what other programs were configured with."),
    "trust": ("ripieno.cli.trust.command:trust", "Agree to the files that a folder brings along, as they are now."),
    "lock": ("ripieno.cli.trust.pins:lock", "Record what foreign tools are, and see what has changed."),
    "login": ("ripieno.cli.trust.login:login", "Sign in at a server behind a URL."),
    "logout": ("ripieno.cli.trust.login:logout", "Forget a sign-in."),
    "doctor": ("ripieno.cli.doctor.command:doctor", "Show what plays, what does not, and why."),
    "schema": ("ripieno.cli.tools.json_schema:schema", "Print the JSON Schema of a kind of file, for editors."),
    "providers": (
        "ripieno.cli.providers:providers",
        "List the providers of models, and what each can do as far as its data says.",
    ),
    "probe": (
        "ripieno.cli.providers:probe",
        "Find out what a model can do, by asking it ten small questions; each may cost up to 300 tokens.",
    ),
    "ask": ("ripieno.cli.conversations.ask:ask", "Ask a model, which may call the tools."),
    "chat": ("ripieno.cli.conversations.chat:chat", "Talk with a model, which may call the tools."),
    "journal": (
        "ripieno.cli.journal.command:journal",
        "Find, show, check, fork and delete what was said and done in conversations.",
    ),
    "stats": (
        "ripieno.cli.journal.stats:stats",
        "Show what conversations took: tokens, calls, errors and time by tool.",
    ),
    "resume": (
        "ripieno.cli.conversations.resume:resume",
        "Go on with a CONVERSATION that waits for a person, or that was interrupted.",
    ),
    "approvals": ("ripieno.cli.conversations.approvals:approvals", "Answer calls that wait for a person."),
    "rehearse": ("ripieno.cli.demo.rehearse:rehearse", "Serve a score as a model, over real wire formats."),
    "serve": ("ripieno.cli.serve.command:serve", "Serve ensembles, and models, to other programs."),
}


class Commands(click.Group):
    """Commands that are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        plugins = _plugin_commands(ctx)
        return [*COMMANDS, *sorted(name for name in plugins if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        paths = _plugin_commands(ctx)
        return _foreign(cmd_name, paths[cmd_name]) if cmd_name in paths else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name][1] if name in COMMANDS else "From a plugin.") for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _plugin_commands(ctx: click.Context) -> Mapping[str, str]:
    """The commands of plugins that the user's configuration, or the named one, allows, with their dotted paths."""
    found: dict[str, Mapping[str, str]] = ctx.meta
    if "ripieno.commands" not in found:
        found["ripieno.commands"] = _discover(ctx.ensure_object(Settings))
    return found["ripieno.commands"]


def _discover(settings: Settings) -> Mapping[str, str]:
    from ripieno.assembly.configuration import Places, load_configuration

    if settings.config is None and not (Places.of_user().configuration / "config.toml").is_file():
        return {}
    return load_configuration(settings.config).registry.commands


def _foreign(name: str, path: str) -> click.Command:
    """A plugin's command. Errors: ``PluginFailure`` when it cannot be imported, or is no command."""
    from ripieno.assembly.plugins import resolve
    from ripieno.exceptions import PluginFailure

    command: Any = resolve(path)
    if not isinstance(command, click.Command):
        raise PluginFailure(path, f"the command {name!r} is {type(command).__name__}, not a click command.")
    return command


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"ripieno {version()}")
        context.exit()


def version() -> str:
    """The version that is installed."""
    from importlib import metadata

    try:
        return metadata.version("ripieno")
    except metadata.PackageNotFoundError:
        return "(not installed: it runs from its sources)"


@click.group(
    cls=Commands,
    epilog=exit_codes.HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@common
def GROUP() -> None:
    """Ripieno lets a language model play every tool that you declare.

    \b
    Example:
      ripieno demo
      ripieno tools
      ripieno invoke io.list_directory path=.
    """
