"""Refusals of what an ensemble cannot do: a call without its connection."""

from ripieno.exceptions import ResourceFault


def disconnected(ensemble: str, tool: str) -> ResourceFault:
    """The fault of a call after its ensemble was disconnected."""
    return ResourceFault(
        f"The tool {tool!r} cannot run: the ensemble {ensemble!r} is disconnected.",
        code="disconnected",
        suggestion="It is not reconnected automatically. Continue without its tools.",
    )
