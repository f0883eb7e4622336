"""The group of all commands: built-in ones from a table, then those of allowed plugins. Each is imported when named."""

import importlib
import pathlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from ripieno.cli.common import exit_codes
from ripieno.cli.common.options import Settings, add_format, common

#: The function that makes the assembly for a plugin's command.
ASSEMBLY = "ripieno.cli.common.assembly:assembly_of"
#: Each command: its module and name, and its line in ``ripieno --help``, so that help imports none of them.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": (
        "ripieno.cli.demo.command:demo",
        "Watch a scripted model call real tools over a real wire; no key needed.",
    ),
    "ensembles": ("ripieno.cli.tools.list:ensembles", "List the ensembles: which are enabled, which are not, and why."),
    "tools": ("ripieno.cli.tools.list:tools", "List the tools that are offered to a model."),
    "explain": ("ripieno.cli.tools.schemas:explain", "Show the definition of one tool as a wire format sends it."),
    "invoke": ("ripieno.cli.tools.invoke:invoke", "Call one tool yourself."),
    "check": ("ripieno.cli.check.command:check", "Check descriptors and configuration."),
    "undo": ("ripieno.cli.undo:undo", "Undo the last N changes that tools made in the workspace."),
    "new": ("ripieno.cli.tools.new:new", "Create a small ensemble that works."),
    "import": ("ripieno.cli.importing.command:import_", "Import MCP servers from another client's configuration."),
    "trust": ("ripieno.cli.trust.command:trust", "Trust the configuration and ensembles of a folder, as they are now."),
    "lock": ("ripieno.cli.trust.pins:lock", "Pin the definitions of third-party tools, and show what has changed."),
    "login": ("ripieno.cli.trust.login:login", "Sign in to an MCP server."),
    "logout": ("ripieno.cli.trust.login:logout", "Sign out of an MCP server."),
    "doctor": ("ripieno.cli.doctor.command:doctor", "Show the state of everything that is configured."),
    "schema": ("ripieno.cli.tools.json_schema:schema", "Print the JSON Schema of a kind of file, for editors."),
    "providers": ("ripieno.cli.providers:providers", "List the model providers and their capabilities."),
    "probe": ("ripieno.cli.providers:probe", "Test the capabilities of a model with ten small requests."),
    "ask": ("ripieno.cli.conversations.ask:ask", "Send one prompt to a model, which may call tools."),
    "chat": ("ripieno.cli.conversations.chat:chat", "Chat with a model, which may call tools."),
    "journal": ("ripieno.cli.journal.command:journal", "List, show, search, verify, fork and delete conversations."),
    "stats": ("ripieno.cli.journal.stats:stats", "Show the tokens, calls, errors and times of conversations."),
    "resume": (
        "ripieno.cli.conversations.resume:resume",
        "Continue a CONVERSATION that waits for a person, or that was interrupted.",
    ),
    "approvals": (
        "ripieno.cli.conversations.approvals:approvals",
        "Approve or deny calls that wait for a person, take approvals back, and give results of calls that a client "
        "runs.",
    ),
    "submit": (
        "ripieno.cli.runs.submit:submit",
        "Give a run to a worker, on this machine or another one, and return at once.",
    ),
    "runs": ("ripieno.cli.runs.runs:runs", "List, watch and cancel runs that workers conduct."),
    "work": ("ripieno.cli.runs.work:work", "Conduct submitted runs, until Ctrl-C."),
    "responses": ("ripieno.cli.responses:responses", "List and erase what a gateway has stored for its callers."),
    "rehearse": ("ripieno.cli.demo.rehearse:rehearse", "Serve a score as a model, over real wire formats."),
    "serve": ("ripieno.cli.serve.command:serve", "Serve tools and models to other programs, and a web page."),
}
#: The commands of each group, so that a mistake imports none of them.
GROUPS: Mapping[str, str] = {
    "approvals": "allowed approve deny list result revoke show",
    "import": "mcp",
    "journal": "copy delete export fork list search show verify",
    "new": "ensemble",
    "responses": "forget list",
    "runs": "cancel list schedules watch workers",
    "serve": "key mcp responses web",
}


class Commands(click.Group):
    """A group that imports each command when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        plugins = _plugin_commands(ctx)
        return [*COMMANDS, *sorted(name for name in plugins if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = _imported(COMMANDS[cmd_name][0])
            add_format(command)
            return command
        paths = _plugin_commands(ctx)
        if cmd_name not in paths:
            return None
        settings = ctx.ensure_object(Settings)

        def assemble(**options: Any) -> Any:
            return _imported(ASSEMBLY)(settings, **options)

        settings.assemble = assemble
        return _foreign(cmd_name, paths[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from ripieno.exceptions import nearest

            if groups := [group for group, names in GROUPS.items() if args[0] in names.split()]:
                whole = " or ".join(f"ripieno {group} {args[0]}" for group in groups)
                message = f"No such command {args[0]!r}. Did you mean: {whole}"
                raise click.exceptions.NoSuchCommand(args[0], message, ctx=ctx)
            # A slip needs no advice about plugins.
            known = self.list_commands(ctx)
            slip = nearest(args[0], known)
            advice: str = "" if slip else (_registry(ctx) or _load_registry(None)).advice
            message = f"No such command {args[0]!r}.{advice and f' {advice}'}"
            raise click.exceptions.NoSuchCommand(args[0], message, possibilities=known, ctx=ctx)
        return super().resolve_command(ctx, args)

    def _line(self, ctx: click.Context, name: str) -> str:
        """The line of a command in the help. That of a plugin's command is its own, so that it is imported."""
        if name in COMMANDS:
            return COMMANDS[name][1]
        from ripieno.exceptions import PluginFailure

        try:
            command = self.get_command(ctx, name)
        except PluginFailure as failure:
            return str(failure)
        return "From a plugin." if command is None else command.get_short_help_str(100) or "From a plugin."

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes names of commands, and options; click would import each command for its line."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self._line(ctx, name)) for name in names), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._line(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _plugin_commands(ctx: click.Context) -> Mapping[str, str]:
    """The dotted paths of the commands of plugins that the user's or the named configuration allows."""
    registry = _registry(ctx)
    commands: Mapping[str, str] = {} if registry is None else registry.commands
    return commands


def _registry(ctx: click.Context) -> Any:
    """The ``Registry`` of plugins; None if there is no configuration that could allow one."""
    found: dict[str, Any] = ctx.meta
    if "ripieno.registry" not in found:
        from ripieno.storage.places import Places

        config = ctx.ensure_object(Settings).config
        files = (Places.of_user().file, *(() if config is None else (config,)))
        # Loading costs most of the time of help and completion.
        found["ripieno.registry"] = _load_registry(config) if any(map(_mentions_plugins, files)) else None
    return found["ripieno.registry"]


def _mentions_plugins(file: pathlib.Path) -> bool:
    """Whether a file may have the table ``[plugins]``. Loading reports one that cannot be read."""
    try:
        return b"plugins" in file.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _load_registry(config: pathlib.Path | None) -> Any:
    from ripieno.assembly.configuration import load_configuration

    return load_configuration(config).registry


def _foreign(name: str, path: str) -> click.Command:
    """A plugin's command. Errors: ``PluginFailure`` if it cannot be imported, or is not a click command."""
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
    """The installed version."""
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
    """Let a language model call every tool that you declare.

    \b
    Example:
      ripieno demo
      ripieno tools
      ripieno invoke io.list_directory path=.
    """
