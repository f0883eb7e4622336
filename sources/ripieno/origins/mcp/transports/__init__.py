"""Transports to MCP servers: standard streams, streamable HTTP, server-sent events."""
