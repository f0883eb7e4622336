"""A server on the official SDK: results that the SDK wraps, and the trace of a request."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

app: Any = MCPServer("wrapping")


@app.tool()
def greet(name: str) -> str:
    """Greets."""
    return f"hello {name}"


@app.tool()
def count(name: str) -> int:
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
async def trace(context: Context[Any, Any]) -> str:
    """Returns the trace context of the request."""
    meta: Any = context.request_context.meta or {}
    return str(dict(meta).get("traceparent"))


if __name__ == "__main__":
    app.run("stdio")
