"""``ripieno serve``: ensembles for programs that are not ours, over protocols that they speak."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import sys
import traceback
from collections.abc import Sequence

import click

from ripieno.assembly import Assembly
from ripieno.cli.assembling import gather_layers, make_assembly, only, require_ensembles
from ripieno.cli.running import Interrupted, run_async, say
from ripieno.cli.settings import Settings, common, pass_settings
from ripieno.confirmation import Answer, ConfirmationRequest, Deny
from ripieno.exceptions import InputError
from ripieno.gathering import Gathered
from ripieno.offers import Offer
from ripieno.patterns import Pattern

HOST = "127.0.0.1"
PORT = 8765


@click.group()
@common
def serve() -> None:
    """Serve ensembles to other programs.

    \b
    Example:
      ripieno serve mcp --ensemble io
    """


@serve.command()
@click.option(
    "--transport",
    type=click.Choice(("stdio", "http")),
    default="stdio",
    show_default=True,
    help="Over standard input and output, for a client that starts this command; or over HTTP.",
)
@click.option(
    "--ensemble", "-e", "names", metavar="E", multiple=True, help="Only this ensemble; all that play by default."
)
@click.option(
    "--approve",
    metavar="PATTERN",
    multiple=True,
    help="Approve calls that nobody could be asked about, such as io.write_file or 'io.*'. "
    "A tool that can destroy is approved by its full name only.",
)
@click.option("--host", metavar="ADDRESS", help=f"http: the address to listen at.  [default: {HOST}]")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), help=f"http: the port; 0 is any free one.  [default: {PORT}]"
)
@click.option(
    "--key-variable",
    metavar="NAME",
    help="http: clients must send the key that this variable of the environment has. "
    "Beyond this machine there is no serving without.",
)
@click.option(
    "--allow-host",
    "allowed",
    metavar="NAME",
    multiple=True,
    help="http: a name under which clients reach this machine, beside ADDRESS and localhost.",
)
@common
@pass_settings
def mcp(
    settings: Settings,
    *,
    transport: str,
    names: tuple[str, ...],
    approve: tuple[str, ...],
    host: str | None,
    port: int | None,
    key_variable: str | None,
    allowed: tuple[str, ...],
) -> None:
    """Serve ensembles to any client of the Model Context Protocol.

    Calls go through the same pipeline as a model's: validated, limited, bounded. Nobody is there to ask, so what
    changes something is denied unless [confirmation] approve, or --approve, covers it.

    \b
    Example:
      ripieno serve mcp --ensemble io --workspace ~/notes --approve io.write_file
      ripieno serve mcp --transport http --port 8765
      ripieno serve mcp --transport http --host 192.168.1.5 --key-variable MCP_KEY

    \b
    What a client that starts it wants in its configuration:
      {"mcpServers": {"ripieno": {"command": "ripieno", "args": ["serve", "mcp"]}}}
    """
    _report_logs(settings)
    if transport == "stdio":
        given = {"--host": host, "--port": port, "--key-variable": key_variable, "--allow-host": allowed or None}
        for option, value in given.items():
            if value is not None:
                raise click.UsageError(f"{option} is for --transport http.")
        _serve_stdio(settings, names, approve)
    else:
        address = _Address(
            host=host or HOST, port=PORT if port is None else port, key=_read_key(key_variable), names=allowed
        )
        # A tool that reads would wait for whoever is at the terminal, who does not know of it.
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        with contextlib.suppress(Interrupted):
            run_async(_serve_http(_gather(settings, names, approve), approve, address))
        say("The server has ended.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """Where HTTP is served, and for whom."""

    host: str
    port: int
    key: str | None = dataclasses.field(repr=False)
    names: Sequence[str]


def _read_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"The variable {variable} is to have the key, and is not set. Try: export {variable}=...")
    return key


def _gather(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> Gathered:
    """The layers, with the ensembles that are wanted and what the command line approves."""
    gathered = gather_layers(settings)
    if names and not gathered.failures:
        require_ensembles(gathered, names)
        gathered = only(gathered, names)
    rules = gathered.configuration.confirmation
    rules = dataclasses.replace(rules, approve=(*rules.approve, *approve))
    return dataclasses.replace(gathered, configuration=dataclasses.replace(gathered.configuration, confirmation=rules))


def _serve_stdio(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> None:
    from ripieno.mcpserver import claim_streams

    if sys.stdin is not None and sys.stdin.isatty():
        say("An MCP client starts this and talks to it; nothing is to be typed here. See: ripieno serve mcp --help")
    # Before plugins and tools are imported, which may print.
    streams = claim_streams()
    with contextlib.suppress(Interrupted):
        run_async(_serve_streams(_gather(settings, names, approve), approve, streams))


async def _serve_streams(gathered: Gathered, approve: Sequence[str], streams: tuple[int, int]) -> None:
    from ripieno.mcpserver import create_server, serve_stdio

    async with make_assembly(gathered, confirmer=Nobody()) as assembly:
        _check(assembly, approve)
        await serve_stdio(create_server(assembly), streams)


async def _serve_http(gathered: Gathered, approve: Sequence[str], address: _Address) -> None:
    from ripieno.mcpserver import create_server, serve_http

    async with make_assembly(gathered, confirmer=Nobody()) as assembly:
        _check(assembly, approve)
        serving = serve_http(
            create_server(assembly), host=address.host, port=address.port, key=address.key, names=address.names
        )
        async with serving as url:
            ensembles = ", ".join(ensemble.name for ensemble in assembly.ensembles) or "no ensembles"
            say(f"Serving {ensembles} to MCP clients at {url}, until Ctrl-C.")
            await asyncio.Event().wait()


def _check(assembly: Assembly, approve: Sequence[str]) -> None:
    """Errors: ``NameAbsence`` for a pattern that fits no tool: a misspelt one approves nothing."""
    if approve:
        Offer.of(assembly.ensembles, tools=[Pattern.parse(one).tool for one in approve])


class Nobody:
    """The confirmer of a server: nobody can be asked, and the text says what its operator can do."""

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Denies."""
        if not request.reason.startswith("its effect is"):
            return Deny(f"Nobody is there to ask, and it asks always: {request.reason}.")
        return Deny(
            f"Nobody is there to ask ({request.reason}). Whoever runs this server can allow it: "
            f'ripieno serve mcp --approve {request.tool}, or approve = ["{request.tool}"] under [confirmation].'
        )


class _Saying(logging.Handler):
    """Says what the libraries log, so that nothing in it can act on a terminal."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__(logging.INFO if debug else logging.WARNING)
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        say(f"! {record.name}: {record.getMessage()}")
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            say("".join(traceback.format_exception(error)) if self._debug else f"! {type(error).__name__}: {error}")


def _report_logs(settings: Settings) -> None:
    logging.getLogger().addHandler(_Saying(debug=settings.debug))
    if settings.debug:
        logging.getLogger("mcp").setLevel(logging.INFO)
