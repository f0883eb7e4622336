"""An application that serves the suite: ensembles for its tools, and handlers of the SDK for what is beside them."""

import asyncio
import pathlib
import signal

import ripieno
from ripieno.servers.mcp.http import serve_http
from ripieno.servers.mcp.server import create_server
from tests.conformance.beside import add_to

HERE = pathlib.Path(__file__).parent


async def main() -> None:
    """Serves until it is told to end."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with ripieno.assemble(HERE / "ripieno.toml", workspace=HERE / "ensembles") as assembly:
        server = create_server(assembly)
        add_to(server)
        async with serve_http(server) as url:
            print(f"Serving clients at {url}", flush=True)
            await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
