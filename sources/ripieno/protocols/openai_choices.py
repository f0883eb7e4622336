"""The choice among tools as the wires of OpenAI's making say it, both directions.

They differ in how one tool is named, and in whether the allowed ones stand in an object of their own (``nested``).
"""

from collections.abc import Callable, Mapping
from typing import Any

from ripieno.controls import Controls
from ripieno.offers import Offer
from ripieno.processors import Capabilities, Native
from ripieno.protocols.asking import choice_of, table_in, tables_in

_CHOICES = ("auto", "none", "required")
_ALLOWED = "allowed_tools"


def choice_in(
    native: Native, named: Callable[[Native], str], *, nested: bool
) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among tools, and those that may be called; ``named`` reads the name of one. Errors: ``InputError``."""
    choice = native.get("tool_choice")
    if choice is None or choice in _CHOICES:
        return choice, None
    choice = table_in(native, "tool_choice")
    if choice.get("type") != _ALLOWED:
        return named(choice), None
    allowed = table_in(choice, _ALLOWED) if nested else choice
    return str(allowed.get("mode", "auto")), tuple(named(tool) for tool in tables_in(allowed, "tools"))


def choice_keys(
    controls: Controls,
    offer: Offer,
    capabilities: Capabilities,
    naming: Callable[[str], Mapping[str, Any]],
    *,
    nested: bool,
) -> dict[str, Any]:
    """The keys of a request about the choice among its tools; ``naming`` writes one. Errors: ``InputError``."""
    native: dict[str, Any] = {}
    if controls.parallel is not None and capabilities.get("parallel_calls", True):
        native["parallel_tool_calls"] = controls.parallel
    choice = choice_of(controls, offer, capabilities)
    if controls.allowed_tools and choice in (None, "auto", "required") and capabilities.get(_ALLOWED, False):
        sent = [naming(name) for name in offer.sent(controls.allowed_tools)]
        allowed = {"mode": choice or "auto", "tools": sent}
        native["tool_choice"] = {"type": _ALLOWED, **({_ALLOWED: allowed} if nested else allowed)}
    elif choice is not None:
        native["tool_choice"] = choice if choice in _CHOICES else naming(choice)
    return native
