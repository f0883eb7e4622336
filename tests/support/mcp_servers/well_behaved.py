"""A well-behaved server, written on the official SDK."""

import base64
import os
import sys
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

app: Any = MCPServer("kind", version="1.0", instructions="Be kind.\u202e")


class Weather(BaseModel):
    """A structured result."""

    city: str
    degrees: float


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers.\U000e0041\u200b"""
    return a + b


@app.tool()
def greet(name: str = "you") -> str:
    """Greets."""
    return f"Hello, {name}."


@app.tool()
def measure(name: str) -> int:
    """Counts letters."""
    return len(name)


@app.tool()
def spell(name: str) -> list[str]:
    """Spells."""
    return list(name)


@app.tool()
def describe(name: str) -> dict[str, int]:
    """Says more than one thing."""
    return {"length": len(name), "vowels": sum(letter in "aeiou" for letter in name)}


@app.tool()
async def trace(context: Context) -> str:
    """Returns the trace context of the request."""
    return str(dict(context.request_context.meta or {}).get("traceparent"))


@app.tool()
def weather(city: str) -> Weather:
    """Tells the weather."""
    return Weather(city=city, degrees=20.5)


@app.tool()
def everything() -> CallToolResult:
    """Every kind of content."""
    data = base64.b64encode(b"\x00\x01").decode()
    link = ResourceLink(name="page", uri="https://example.org/page", mime_type="text/html")
    text = TextResourceContents(uri="file:///a.md", mime_type="text/markdown", text="# A")
    blob = BlobResourceContents(uri="file:///a.pdf", mime_type="application/pdf", blob=data)
    return CallToolResult(
        content=[
            TextContent(text="text"),
            ImageContent(data=data, mime_type="image/png"),
            AudioContent(data=data, mime_type="audio/wav"),
            link,
            EmbeddedResource(resource=text),
            EmbeddedResource(resource=blob),
            ImageContent(data="?", mime_type="image/png"),
        ]
    )


@app.tool()
def fail() -> str:
    """Fails, and says why."""
    raise ToolError("the cat is on the keyboard")


@app.tool()
async def count(to: int, context: Context) -> str:
    """Counts, with progress."""
    for done in range(1, to + 1):
        await context.report_progress(done, to, f"step {done}")
    return "done"


CANCELLED = anyio.Event()


@app.tool()
async def wait(context: Context) -> str:
    """Waits to be cancelled."""
    await context.report_progress(0)
    try:
        await anyio.sleep_forever()
    finally:
        CANCELLED.set()


@app.tool()
async def cancelled() -> bool:
    """Returns when ``wait`` was cancelled."""
    await CANCELLED.wait()
    return True


class Consent(BaseModel):
    """What is asked for."""

    sure: bool


async def ask() -> Elicit[Consent]:
    """Asks back."""
    return Elicit("Sure?", Consent)


@app.tool()
async def book(consent: Annotated[Consent, Resolve(ask)]) -> str:
    """Asks back before it does anything."""
    return str(consent.sure)


@app.tool()
def die() -> str:
    """Ends the server in the middle of a call."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(3)


@app.tool()
def environment() -> dict[str, str]:
    """The whole environment of the server."""
    return dict(os.environ)


@app.tool()
def directory() -> str:
    """The working directory of the server."""
    return os.getcwd()


if __name__ == "__main__":
    if "ALIVE" in os.environ:
        os.open(os.environ["ALIVE"], os.O_WRONLY)
    app.run("stdio")
