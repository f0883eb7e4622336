"""Servers: the Responses gateway, the MCP server, and the HTTP base that both share."""
