"""Our MCP server as a real process, over standard streams or HTTP, and the SDK's client of it."""

import asyncio
import contextlib
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from mcp import Client, StdioServerParameters

from tests.support.command_line import COMMAND, PATIENCE, ROOT, User, wait_for

TRANSPORTS = ("stdio", "http")
#: The mode of the client, and the protocol version that it negotiates.
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
KEY = "a-key-of-many-letters"

BAND = ROOT / "tests" / "data" / "ensembles" / "band.toml"
TOOLS = """
import asyncio, os, pathlib, subprocess, sys
from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.exceptions import ExecutionFault, ResourceFault

print("imported")

def add(context, arguments):
    return {"sum": arguments["first"] + arguments["second"]}

def spell(context, arguments):
    return list(arguments["word"])

def lie(context, arguments):
    return {"sum": "many"} if arguments["how"] == "number" else "no JSON at all"

def flood(context, arguments):
    return {"text": "x" * 100_000}

def everything(context, arguments):
    return [
        TextualContent(text="words"),
        ImageContent(data=b"\\x89PNG", mime_type="image/png"),
        AudioContent(data=b"RIFF", mime_type="audio/wav"),
        DocumentContent(data=b"%PDF", mime_type="application/pdf"),
        DocumentContent(data=b"# One", mime_type="text/markdown"),
        DocumentContent(data=b"\\xff", mime_type="text/plain"),
        DocumentContent(url="https://example.org/papers/one.pdf", mime_type="application/pdf"),
    ]

def fail(context, arguments):
    raise ExecutionFault("The cat sleeps on it.", suggestion="Wake the cat.")

def crash(context, arguments):
    raise RuntimeError("secret of /etc/shadow")

def leak(context, arguments):
    here = context.surroundings.workspace / "notes.txt"
    raise ResourceFault(f"Neither {here} nor /etc/passwd nor /v1/items nor https://a.example/usr/lib can be read.")

def shout(context, arguments):
    print("LOUD 1")
    os.write(1, b"LOUD 2\\n")
    subprocess.run(["sh", "-c", "echo LOUD 3"], check=True)
    return sys.stdin.read()

async def count(context, arguments):
    for done in (1, 2, 2, "no number", float("nan"), 3):
        context.progress(done, 3, f"step {done}")
    return "counted"

async def wait(context, arguments):
    place = context.surroundings.workspace
    (place / "began").touch()
    try:
        await asyncio.sleep(PATIENCE)
    except asyncio.CancelledError:
        (place / "cancelled").touch()
        raise

async def reconnect(context, arguments):
    await context.invoker.ensemble.disconnect()
    await context.invoker.ensemble.connect()
    return "done"

def save(context, arguments):
    (context.surroundings.workspace / "saved").touch()
    return "saved"

def destroy(context, arguments):
    return "destroyed"
""".replace("PATIENCE", str(PATIENCE))


def play_band(user: User) -> None:
    """Gives the user an ensemble of tools that succeed, fail, lie, crash, leak, print and wait."""
    file = user.ensemble("band", BAND.read_text())
    (file.parent / "band.py").write_text(TOOLS)


@contextlib.contextmanager
def over_http(user: User, *arguments: str, **extra: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a server on a free port, and its process, which must end with exit code 0."""
    with user.start("serve", "mcp", "--transport", "http", "--port", "0", *arguments, **extra) as process:
        yield wait_for(process, r"at (http\S+),")[1], process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


@contextlib.asynccontextmanager
async def connected(user: User, transport: str, mode: str, *arguments: str, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client of a server process."""
    if transport == "stdio":
        parameters = StdioServerParameters(
            command=COMMAND[0],
            args=[*COMMAND[1:], "serve", "mcp", *arguments],
            env=user.environment(),
            cwd=user.workspace,
        )
        async with Client(parameters, mode=mode, **options) as client:
            yield client
    else:
        with over_http(user, *arguments) as (url, _):
            async with Client(url, mode=mode, **options) as client:
                yield client


async def appear(file: pathlib.Path) -> None:
    """Waits until a file is there."""

    def look() -> None:
        until = time.monotonic() + PATIENCE
        while not file.exists():
            assert time.monotonic() < until, f"{file.name} does not exist."
            time.sleep(0.01)

    await asyncio.to_thread(look)


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line of a process's output, with a timeout."""
    assert process.stdout is not None
    lines: list[str] = []
    # Of two lines that arrive together, the second is in the file object's buffer, which select does not see.
    reader = threading.Thread(
        target=lambda stream: lines.append(stream.readline()), args=(process.stdout,), daemon=True
    )
    reader.start()
    reader.join(PATIENCE)
    assert lines, "No line came."
    return lines[0]
