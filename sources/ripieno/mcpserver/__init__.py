"""Ensembles, offered to any client of the Model Context Protocol, in both of its eras.

``create_server`` makes the SDK's server of an assembly; ``serve_stdio`` and ``serve_http`` run it. Importing this
imports the SDK, which takes most of a second.
"""

from ripieno.mcpserver.http import serve_http
from ripieno.mcpserver.server import EnsembleServer, create_server
from ripieno.mcpserver.stdio import claim_streams, serve_stdio

__all__ = ["EnsembleServer", "claim_streams", "create_server", "serve_http", "serve_stdio"]
