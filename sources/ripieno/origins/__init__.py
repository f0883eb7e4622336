"""Origins: the kinds of place that invokers come from. One room each; a new one is a room and a line here."""

from collections.abc import Mapping

from ripieno.plugin import hookimpl


@hookimpl
def ripieno_origins() -> Mapping[str, str]:
    """The origins that are built in."""
    return {
        "client": "ripieno.origins.client:ORIGIN",
        "command": "ripieno.origins.command:ORIGIN",
        "http": "ripieno.origins.http:ORIGIN",
        "mcp": "ripieno.origins.mcp:ORIGIN",
        "python": "ripieno.origins.python:ORIGIN",
    }
