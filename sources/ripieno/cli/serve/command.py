"""``ripieno serve``: tools and models for other programs, over the protocols that these use."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence

import click

from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_ensemble
from ripieno.cli.common.layers import load_layers, select_ensembles
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.options import Number, Settings, common, journaled, pass_settings
from ripieno.cli.serve.common import (
    HOST,
    approvable,
    approving,
    check_approvals,
    leave_input,
    read_key,
    report_logs,
    report_starting,
)
from ripieno.cli.serve.responses import key, responses
from ripieno.cli.serve.web import web
from ripieno.servers.streams import claim_streams
from ripieno.values import Value, unprinted

PORT = 8765
_COMMAND = "ripieno serve mcp"


@click.group()
@common
def serve() -> None:
    """Serve tools and models to other programs, and a web page.

    \b
    Example:
      ripieno serve web
      ripieno serve mcp --ensemble io
      ripieno serve responses --model house/small-1
    """


serve.add_command(responses)
serve.add_command(key)
serve.add_command(web)


@serve.command()
@click.option(
    "--transport",
    type=click.Choice(("stdio", "http")),
    default="stdio",
    show_default=True,
    help="stdio, for a client that starts this command; or http.",
)
@click.option(
    "--ensemble",
    "-e",
    "names",
    metavar="E",
    shell_complete=complete_ensemble,
    multiple=True,
    help="Serve only this ensemble; by default all enabled ones.",
)
@approvable
@click.option("--host", metavar="ADDRESS", help=f"http: the address to listen on.  [default: {HOST}]")
@click.option(
    "--port", metavar="N", type=Number(0, 65535), help=f"http: the port; 0 for any free one.  [default: {PORT}]"
)
@click.option(
    "--key-variable",
    metavar="NAME",
    help="http: the environment variable with the key that clients must send. Required beyond this machine.",
)
@click.option(
    "--allow-host",
    "allowed",
    metavar="NAME",
    multiple=True,
    help="http: another host name of this machine that clients use.",
)
@journaled
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
    """Serve ensembles to clients of the Model Context Protocol.

    Calls are validated and limited like a model's. No one can be asked for approval, so calls that change something are
    denied unless [confirmation] approve, or --approve, covers them.

    \b
    Example:
      ripieno serve mcp --ensemble io --workspace ~/notes --approve io.write_file
      ripieno serve mcp --transport http --port 8765
      ripieno serve mcp --transport http --host 192.168.1.5 --key-variable MCP_KEY

    \b
    The configuration of a client that starts it:
      {"mcpServers": {"ripieno": {"command": "ripieno", "args": ["serve", "mcp"]}}}
    """
    with report_logs(settings):
        if transport == "stdio":
            given = {"--host": host, "--port": port, "--key-variable": key_variable, "--allow-host": allowed or None}
            for option, value in given.items():
                if value is not None:
                    raise click.UsageError(f"{option} needs --transport http.")
            _serve_stdio(settings, names, approve)
        else:
            report_starting()
            address = _Address(
                host=host or HOST, port=PORT if port is None else port, key=read_key(key_variable), names=allowed
            )
            leave_input()
            with contextlib.suppress(Interrupted):
                run_async(_serve_http(_load(settings, names, approve), approve, address))
            say("The server has ended.")


@unprinted("key")
class _Address(Value, kw_only=True):
    host: str
    port: int
    key: str | None
    names: Sequence[str]


def _load(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> LoadedConfiguration:
    return approving(select_ensembles(load_layers(settings), names), approve)


def _serve_stdio(settings: Settings, names: Sequence[str], approve: Sequence[str]) -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        say("An MCP client starts this command and writes to its input. See: ripieno serve mcp --help")
    # Before plugins and tools are imported, which may print.
    streams = claim_streams()
    with contextlib.suppress(Interrupted):
        run_async(_serve_streams(_load(settings, names, approve), approve, streams))


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
            offering = [
                one.name for one in assembly.ensembles if any(tool.hosted == "here" for tool in one.invokers.values())
            ]
            ensembles = ", ".join(offering) or "no tools"
            say(f"Serving {ensembles} to MCP clients at {url}, until Ctrl-C.")
            await asyncio.Event().wait()
