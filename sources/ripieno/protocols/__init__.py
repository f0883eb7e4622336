"""Wire formats: one package each, both directions, quirks listed in its docstring."""

from collections.abc import Mapping

from ripieno.plugin import hookimpl


@hookimpl
def ripieno_protocols() -> Mapping[str, str]:
    """The wire formats that are built in."""
    return {
        "anthropic": "ripieno.protocols.anthropic:PROTOCOL",
        "gemini": "ripieno.protocols.gemini:PROTOCOL",
        "openai-chat": "ripieno.protocols.openai_chat:PROTOCOL",
        "openai-responses": "ripieno.protocols.openai_responses:PROTOCOL",
        "prompted": "ripieno.protocols.prompted:PROTOCOL",
    }
