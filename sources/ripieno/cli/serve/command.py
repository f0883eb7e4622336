"""``ripieno serve``: ensembles for programs that are not ours, over protocols that they speak."""

import asyncio
import contextlib
import dataclasses
import sys
from collections.abc import Sequence

import click

from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import load_layers, make_assembly, only, require_ensembles
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.serve.common import approvable, approving, check_approvals, leave_input, read_key, report_logs
from ripieno.cli.serve.responses import key, responses

HOST = "127.0.0.1"
PORT = 8765
_COMMAND = "ripieno serve mcp"


@click.group()
@common
def serve() -> None:
    """Serve ensembles, and models, to other programs.

    \b
    Example:
      ripieno serve mcp --ensemble io
      ripieno serve responses --model house/small-1
    """


serve.add_command(responses)
serve.add_command(key)


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
@approvable
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
    report_logs(settings)
    if transport == "stdio":
        given = {"--host": host, "--port": port, "--key-variable": key_variable, "--allow-host": allowed or None}
        for option, value in given.items():
            if value is not None:
                raise click.UsageError(f"{option} is for --transport http.")
        _serve_stdio(settings, names, approve)
    else:
        address = _Address(
            host=host or HOST, port=PORT if port is None else port, key=read_key(key_variable), names=allowed
        )
        leave_input()
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


def _gather(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> LoadedConfiguration:
    """The layers, with the ensembles that are wanted and what the command line approves."""
    loaded = load_layers(settings)
    if names and not loaded.failures:
        require_ensembles(loaded, names)
        loaded = only(loaded, names)
    return approving(loaded, approve)


def _serve_stdio(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> None:
    from ripieno.servers.mcp.stdio import claim_streams

    if sys.stdin is not None and sys.stdin.isatty():
        say("An MCP client starts this and talks to it; nothing is to be typed here. See: ripieno serve mcp --help")
    # Before plugins and tools are imported, which may print.
    streams = claim_streams()
    with contextlib.suppress(Interrupted):
        run_async(_serve_streams(_gather(settings, names, approve), approve, streams))


async def _serve_streams(loaded: LoadedConfiguration, approve: Sequence[str], streams: tuple[int, int]) -> None:
    from ripieno.servers.mcp.server import create_server
    from ripieno.servers.mcp.stdio import serve_stdio

    async with make_assembly(loaded, confirmer=ServingConfirmer(_COMMAND)) as assembly:
        check_approvals(assembly, approve)
        await serve_stdio(create_server(assembly), streams)


async def _serve_http(loaded: LoadedConfiguration, approve: Sequence[str], address: _Address) -> None:
    from ripieno.servers.mcp.http import serve_http
    from ripieno.servers.mcp.server import create_server

    async with make_assembly(loaded, confirmer=ServingConfirmer(_COMMAND)) as assembly:
        check_approvals(assembly, approve)
        serving = serve_http(
            create_server(assembly), host=address.host, port=address.port, key=address.key, names=address.names
        )
        async with serving as url:
            ensembles = ", ".join(ensemble.name for ensemble in assembly.ensembles) or "no ensembles"
            say(f"Serving {ensembles} to MCP clients at {url}, until Ctrl-C.")
            await asyncio.Event().wait()
