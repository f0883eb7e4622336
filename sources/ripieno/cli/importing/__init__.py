"""``ripieno import``: MCP servers from the configuration of another client."""
