"""Sign-in at MCP servers: OAuth 2.1 with the browser of the user."""
