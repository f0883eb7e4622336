"""Our server with the suite's tools, as a process of its own: an application, with handlers of the SDK beside it."""

import asyncio
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator

import ripieno
from ripieno.servers.mcp.http import serve_http
from ripieno.servers.mcp.server import create_server
from tests.conformance.beside import add_to
from tests.conformance.suite import Unavailable

HERE = pathlib.Path(__file__).parent
#: Seconds for it to end by itself.
GRACE = 10


@contextlib.contextmanager
def serving() -> Generator[str, None, None]:
    """Runs it as long as it is entered; gives its URL. Nothing of the user's own configuration plays."""
    command = [sys.executable, "-m", __name__]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "RIPIENO_CONFIG_HOME": folder,
            "RIPIENO_STATE_HOME": folder,
            # The server that changes is started with the Python that runs this.
            "PATH": os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", ""))),
        }
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                yield _url(process)
            finally:
                process.terminate()
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"clients at (http://\S+)", line):
            return found[1]
    raise Unavailable(f"Our server did not start:\n{''.join(said)}")


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
