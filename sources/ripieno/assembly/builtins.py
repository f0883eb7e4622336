"""The built-in plugin: the origins, wire formats and data that come with the package. A new one adds a line here."""

import pathlib
from collections.abc import Mapping, Sequence

from ripieno.plugin.hooks import hookimpl
from ripieno.toolset import DATA

#: The wire format that most servers have.
DEFAULT_PROTOCOL = "openai-chat"


@hookimpl
def ripieno_data() -> Sequence[pathlib.Path]:
    """The bundled folders of TOML."""
    return (DATA,)


@hookimpl
def ripieno_origins() -> Mapping[str, str]:
    """The built-in origins."""
    return {
        "client": "ripieno.origins.client:ORIGIN",
        "command": "ripieno.origins.command:ORIGIN",
        "http": "ripieno.origins.http:ORIGIN",
        "mcp": "ripieno.origins.mcp:ORIGIN",
        "python": "ripieno.origins.python:ORIGIN",
    }


@hookimpl
def ripieno_protocols() -> Mapping[str, str]:
    """The built-in wire formats."""
    return {
        "anthropic": "ripieno.models.protocols.anthropic:PROTOCOL",
        "gemini": "ripieno.models.protocols.gemini:PROTOCOL",
        "openai-chat": "ripieno.models.protocols.openai_chat:PROTOCOL",
        "openai-responses": "ripieno.models.protocols.openai_responses:PROTOCOL",
        "prompted": "ripieno.models.protocols.prompted:PROTOCOL",
    }
