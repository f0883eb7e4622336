"""A server of the SDK's own kind: results that it wraps, and a tool that makes another one."""

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
async def grow(name: str, context: Context[Any, Any]) -> str:
    """Makes another tool."""

    def newcomer() -> str:
        """It is new."""
        return "new"

    app.add_tool(newcomer, name=name)
    # In 2026-07-28, who has not subscribed is not told; in the handshake era everybody is.
    await context.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    app.run("stdio")
