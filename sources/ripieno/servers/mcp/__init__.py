"""Ensembles, offered to any client of the Model Context Protocol, in both of its eras.

``create_server`` makes the SDK's server of an assembly; ``serve_stdio`` and ``serve_http`` run it. Importing this
imports the SDK, which takes most of a second. A tool that knows it serves an MCP client asks it with
``current_client``.
"""

from ripieno.servers.mcp.client import Client, UnaskedClient, current_client
from ripieno.servers.mcp.http import serve_http
from ripieno.servers.mcp.server import EnsembleServer, create_server
from ripieno.servers.mcp.stdio import claim_streams, serve_stdio

__all__ = [
    "Client",
    "EnsembleServer",
    "UnaskedClient",
    "claim_streams",
    "create_server",
    "current_client",
    "serve_http",
    "serve_stdio",
]
