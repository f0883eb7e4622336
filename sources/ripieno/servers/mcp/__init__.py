"""An MCP server for ensembles, for clients of both protocol eras."""
