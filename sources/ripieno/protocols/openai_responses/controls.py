"""Controls of the Responses wire."""

from collections.abc import Mapping
from typing import Any

from ripieno.controls import Controls
from ripieno.exceptions import InputError
from ripieno.offers import Offer
from ripieno.processors import Capabilities, ControlsProcessor, Native
from ripieno.protocols.asking import (
    choice_of,
    count_in,
    effort_in,
    flag_in,
    number_in,
    sampling_of,
    table_in,
    tables_in,
)
from ripieno.protocols.openai_responses.invocations import declared_by

_CHOICES = ("auto", "none", "required")
_ALLOWED = "allowed_tools"
_KINDS = ("function", "custom")


class OpenaiResponsesControls(ControlsProcessor):
    """Every control has a word, but for stop sequences."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        if controls.stop:
            raise InputError(
                "The Responses wire has no word for stop: leave it out, or ask this model over chat completions."
            )
        native: dict[str, Any] = {}
        if controls.output_tokens is not None:
            native["max_output_tokens"] = controls.output_tokens
        native.update(sampling_of(controls, capabilities))
        if controls.reasoning is not None:
            native["reasoning"] = {"effort": controls.reasoning}
        if controls.stream:
            native["stream"] = True
        return native

    def normalize(self, native: Native) -> Controls:
        choice, allowed = _chosen(native)
        return Controls(
            temperature=number_in(native, "temperature"),
            output_tokens=count_in(native, "max_output_tokens"),
            top_p=number_in(native, "top_p"),
            reasoning=effort_in(table_in(native, "reasoning"), "effort"),
            stream=flag_in(native, "stream") or False,
            tool_choice=choice,
            allowed_tools=allowed,
            parallel=flag_in(native, "parallel_tool_calls"),
        )


CONTROLS = OpenaiResponsesControls()


def _chosen(native: Native) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among tools, and those that may be called."""
    choice = native.get("tool_choice")
    if choice is None or choice in _CHOICES:
        return choice, None
    choice = table_in(native, "tool_choice")
    if choice.get("type") != _ALLOWED:
        return _named(choice), None
    return str(choice.get("mode", "auto")), tuple(_named(tool) for tool in tables_in(choice, "tools"))


def _named(tool: Mapping[str, Any]) -> str:
    """The name in ``{"type": "function", "name"}``."""
    if tool.get("type") not in _KINDS:
        raise InputError(f"tool_choice has the type {tool.get('type')!r}; known are function, custom and {_ALLOWED}.")
    return str(tool["name"])


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The keys of a request about the choice among its tools. Errors: ``InputError``."""
    native: dict[str, Any] = {}
    if controls.parallel is not None and capabilities.get("parallel_calls", True):
        native["parallel_tool_calls"] = controls.parallel
    choice = choice_of(controls, offer, capabilities)
    if controls.allowed_tools and choice in (None, "auto", "required") and capabilities.get(_ALLOWED, False):
        tools = [_naming(name, offer) for name in controls.allowed_tools]
        native["tool_choice"] = {"type": _ALLOWED, "mode": choice or "auto", "tools": tools}
    elif choice in _CHOICES:
        native["tool_choice"] = choice
    elif choice is not None:
        native["tool_choice"] = _naming(choice, offer)
    return native


def _naming(name: str, offer: Offer) -> dict[str, str]:
    """The word for one tool, which says what kind it has."""
    invoker = offer.named(name)
    freeform = invoker is not None and declared_by(invoker) is not None
    return {"type": "custom" if freeform else "function", "name": name}
