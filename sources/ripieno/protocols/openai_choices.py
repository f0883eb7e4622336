"""The choice among tools as the wires of OpenAI's making say it, both directions.

They differ in how one tool is named, and in whether the allowed ones stand in an object of their own (``nested``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_table
from ripieno.processors import Capabilities, Native
from ripieno.protocols.asking import choice_of, table_in, tables_in
from ripieno.protocols.declaring import Declared, hosted_word
from ripieno.protocols.parsing import unknown

_CHOICES = ("auto", "none", "required")
#: What a client runs.
_OURS = ("function", "custom")
_ALLOWED = "allowed_tools"


def choice_in(native: Native, declared: Declared) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among the tools that a client declares, and those that may be called. Errors: ``InputError``.

    Each is taken in the words of either wire.
    """
    choice = native.get("tool_choice")
    if choice is None or choice in _CHOICES:
        return choice, None
    if isinstance(choice, str):
        raise RequestInvalidity(
            f"tool_choice is {choice!r}; known are {', '.join(_CHOICES)}, and objects.", parameter="tool_choice"
        )
    choice = table_in(native, "tool_choice")
    if choice.get("type") != _ALLOWED:
        names = _named(choice, declared)
        return (names[0], None) if len(names) == 1 else ("required", tuple(names))
    allowed = table_in(choice, _ALLOWED) if choice.get(_ALLOWED) is not None else choice
    mode = allowed.get("mode") or "auto"
    if mode not in _CHOICES:
        raise RequestInvalidity(
            f"The mode of allowed_tools is {mode!r}; known are auto and required.", parameter="tool_choice"
        )
    return mode, tuple(name for tool in tables_in(allowed, "tools") for name in _named(tool, declared))


def _named(tool: Native, declared: Declared) -> Sequence[str]:
    """The names of what a choice names: one of a function; all of a namespace; a word for what is hosted."""
    kind = tool.get("type")
    inner = tool.get(kind) if isinstance(kind, str) else None
    said = inner if is_table(inner) else tool
    name, namespace = said.get("name"), said.get("namespace") or tool.get("namespace") or ""
    if kind in _OURS:
        if not isinstance(name, str) or not isinstance(namespace, str):
            raise RequestInvalidity(f"tool_choice has a {kind} without a name.", parameter="tool_choice")
        exposed = declared.exposed(name, namespace)
        if exposed is None:
            raise unknown(name, declared)
        return (exposed,)
    if kind == "namespace":
        found = [exposed for (space, _), exposed in declared.names.items() if space == name]
    else:
        label = said.get("server_label") or ""
        fits = [one for one in declared.hosted if one.kind == kind and (not label or one.label == label)]
        found = [hosted_word(one, str(said.get("name") or "")) for one in fits]
    if not found:
        raise unknown(name if kind == "namespace" else kind, declared)
    return found


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
