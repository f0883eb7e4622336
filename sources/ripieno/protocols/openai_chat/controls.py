"""Controls of the chat completions wire."""

from collections.abc import Mapping
from typing import Any

from ripieno.controls import Controls
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
    texts_in,
)

_CHOICES = ("auto", "none", "required")
_ALLOWED = "allowed_tools"


class OpenaiChatControls(ControlsProcessor):
    """Every control has a word; which word for the tokens, the provider's data says."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        native: dict[str, Any] = {}
        if controls.output_tokens is not None:
            native[str(capabilities.get("output_tokens_parameter", "max_completion_tokens"))] = controls.output_tokens
        native.update(sampling_of(controls, capabilities))
        if controls.stop:
            native["stop"] = list(controls.stop)
        if controls.reasoning is not None:
            native["reasoning_effort"] = controls.reasoning
        if controls.stream:
            native["stream"] = True
            if capabilities.get("stream_usage", True):
                native["stream_options"] = {"include_usage": True}
        return native

    def normalize(self, native: Native) -> Controls:
        choice, allowed = _chosen(native)
        tokens = count_in(native, "max_completion_tokens")
        return Controls(
            temperature=number_in(native, "temperature"),
            output_tokens=count_in(native, "max_tokens") if tokens is None else tokens,
            top_p=number_in(native, "top_p"),
            stop=texts_in(native, "stop"),
            reasoning=effort_in(native, "reasoning_effort"),
            stream=flag_in(native, "stream") or False,
            tool_choice=choice,
            allowed_tools=allowed,
            parallel=flag_in(native, "parallel_tool_calls"),
        )


CONTROLS = OpenaiChatControls()


def _chosen(native: Native) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among tools, and those that may be called."""
    choice = native.get("tool_choice")
    if choice is None or choice in _CHOICES:
        return choice, None
    choice = table_in(native, "tool_choice")
    if choice.get("type") != _ALLOWED:
        return _named(choice), None
    inner = table_in(choice, _ALLOWED)
    return str(inner.get("mode", "auto")), tuple(_named(tool) for tool in tables_in(inner, "tools"))


def _named(tool: Mapping[str, Any]) -> str:
    """The name in ``{"type": "function", "function": {"name"}}`` and its like."""
    return str(table_in(tool, str(tool.get("type")))["name"])


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The keys of a request about the choice among its tools. Errors: ``InputError``."""
    native: dict[str, Any] = {}
    if controls.parallel is not None and capabilities.get("parallel_calls", True):
        native["parallel_tool_calls"] = controls.parallel
    choice = choice_of(controls, offer, capabilities)
    if controls.allowed_tools and choice in (None, "auto", "required") and capabilities.get(_ALLOWED, False):
        tools = [{"type": "function", "function": {"name": name}} for name in controls.allowed_tools]
        native["tool_choice"] = {"type": _ALLOWED, _ALLOWED: {"mode": choice or "auto", "tools": tools}}
    elif choice in _CHOICES:
        native["tool_choice"] = choice
    elif choice is not None:
        native["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return native
