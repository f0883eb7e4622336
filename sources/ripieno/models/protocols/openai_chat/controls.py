"""Controls of the chat completions wire."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import Controls
from ripieno.ensembles.offers import Offer
from ripieno.models.protocol import Capabilities, ControlsProcessor, Native
from ripieno.models.protocols.common.openai import TUNING_WORDS, choice_keys, format_object, read_controls
from ripieno.models.protocols.common.requests import (
    count_in,
    effort_in,
    format_in,
    format_of,
    present,
    sampling_of,
    table_in,
    texts_in,
    tuning_of,
)
from ripieno.models.protocols.common.tools import Declared
from ripieno.models.protocols.openai_chat.invocations import declared_in


class OpenaiChatControls(ControlsProcessor):
    """All controls; the provider's data names the parameter for output tokens."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        form = format_of(controls, capabilities)
        counts = controls.stream and capabilities.get("stream_usage", True)
        native = {
            str(capabilities.get("output_tokens_parameter", "max_completion_tokens")): controls.output_tokens,
            **sampling_of(controls, capabilities),
            **tuning_of(controls, "chat completions", TUNING_WORDS),
            "stop": controls.stop or None,
            "reasoning_effort": controls.reasoning,
            "response_format": None if form is None else format_object(form, "json_schema"),
            "stream": controls.stream or None,
            "stream_options": {"include_usage": True} if counts else None,
        }
        return present(native)

    def normalize(self, native: Native) -> Controls:
        return controls_in(native, declared_in(native))


CONTROLS = OpenaiChatControls()


def controls_in(native: Native, declared: Declared) -> Controls:
    """The controls of a request with these tools. Errors: ``InputError``."""
    tokens = count_in(native, "max_completion_tokens")
    form = table_in(native, "response_format")
    return read_controls(
        native,
        declared,
        output_tokens=count_in(native, "max_tokens") if tokens is None else tokens,
        stop=texts_in(native, "stop"),
        reasoning=effort_in(native, "reasoning_effort"),
        format=format_in(form, table_in(form, "json_schema"), "response_format") if form else None,
    )


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The request's keys for the choice among tools. Errors: ``InputError``."""
    return choice_keys(controls, offer, capabilities, _naming, nested=True)


def _naming(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
