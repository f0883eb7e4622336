"""Bundled invocables for thinking aloud. They only record: what was said stands in the conversation, as a call."""

from typing import Any

from ripieno.ensembles import Context


async def record(_: Context, arguments: dict[str, Any]) -> str:  # noqa: ARG001  recorded with the call
    """Says that it was taken down."""
    return "Recorded."
