"""A server that says on behalf of which trace it is called."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

app: Any = MCPServer("tracing")


@app.tool()
async def trace(context: Context[Any, Any]) -> str:
    """Says what came with the request."""
    meta: Any = context.request_context.meta or {}
    return str(dict(meta).get("traceparent"))


if __name__ == "__main__":
    app.run("stdio")
