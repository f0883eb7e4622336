"""The workers of a server."""
