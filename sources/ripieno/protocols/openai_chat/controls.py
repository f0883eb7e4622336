"""Controls of the chat completions wire."""

from collections.abc import Mapping
from typing import Any

from ripieno.controls import Controls
from ripieno.offers import Offer
from ripieno.processors import Capabilities, ControlsProcessor, Native
from ripieno.protocols.asking import (
    count_in,
    effort_in,
    flag_in,
    number_in,
    sampling_of,
    table_in,
    texts_in,
)
from ripieno.protocols.openai_choices import choice_in, choice_keys


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
        choice, allowed = choice_in(native, _named, nested=True)
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


def _named(tool: Mapping[str, Any]) -> str:
    """The name in ``{"type": "function", "function": {"name"}}`` and its like."""
    return str(table_in(tool, str(tool.get("type")))["name"])


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The keys of a request about the choice among its tools. Errors: ``InputError``."""
    return choice_keys(controls, offer, capabilities, _naming, nested=True)


def _naming(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
