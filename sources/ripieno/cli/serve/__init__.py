"""``ripieno serve``: the Responses gateway and the MCP server."""
