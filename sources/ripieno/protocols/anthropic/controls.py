"""Controls of the Messages wire."""

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
    texts_in,
)

#: What a request asks for when neither the controls nor the provider's data say.
OUTPUT_TOKENS = 8192
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_CHOICES_BACK = {native: choice for choice, native in _CHOICES.items()}


class AnthropicControls(ControlsProcessor):
    """``max_tokens`` always; sampling only where the provider's data allows it."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        native: dict[str, Any] = {
            "max_tokens": controls.output_tokens or capabilities.get("output_tokens") or OUTPUT_TOKENS
        }
        native.update(sampling_of(controls, capabilities, default=False))
        if controls.stop:
            native["stop_sequences"] = list(controls.stop)
        if controls.reasoning == "none":
            native["thinking"] = {"type": "disabled"}
        elif controls.reasoning is not None:
            native["thinking"] = {"type": "adaptive"}
            native["output_config"] = {"effort": controls.reasoning}
        if controls.stream:
            native["stream"] = True
        return native

    def normalize(self, native: Native) -> Controls:
        choice = table_in(native, "tool_choice")
        serial = flag_in(choice, "disable_parallel_tool_use")
        disabled = table_in(native, "thinking").get("type") == "disabled"
        return Controls(
            temperature=number_in(native, "temperature"),
            output_tokens=count_in(native, "max_tokens"),
            top_p=number_in(native, "top_p"),
            stop=texts_in(native, "stop_sequences"),
            reasoning="none" if disabled else effort_in(table_in(native, "output_config"), "effort"),
            stream=flag_in(native, "stream") or False,
            tool_choice=_chosen(choice),
            parallel=None if serial is None else not serial,
        )


CONTROLS = AnthropicControls()


def _chosen(choice: Mapping[str, Any]) -> str | None:
    kind = choice.get("type")
    if kind is None:
        return None
    if kind == "tool":
        return str(choice["name"])
    if kind not in _CHOICES_BACK:
        raise InputError(f"tool_choice has the type {kind!r}; known are auto, any, tool and none.")
    return _CHOICES_BACK[kind]


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any] | None:
    """The choice among tools as the wire says it; None leaves it to the provider. Errors: ``InputError``."""
    choice = choice_of(controls, offer, capabilities)
    parallel = controls.parallel if capabilities.get("parallel_calls", True) else None
    if choice is None and parallel is None:
        return None
    kind = _CHOICES.get(choice or "auto")
    native: dict[str, Any] = {"type": "tool", "name": choice} if kind is None else {"type": kind}
    if parallel is not None and kind != "none":
        native["disable_parallel_tool_use"] = not parallel
    return native
