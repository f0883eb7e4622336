"""Controls of the Responses wire."""

import functools
from collections.abc import Mapping
from typing import Any

from ripieno.controls import Controls
from ripieno.exceptions import InputError
from ripieno.offers import Offer
from ripieno.processors import Capabilities, ControlsProcessor, Native
from ripieno.protocols.asking import (
    count_in,
    effort_in,
    flag_in,
    number_in,
    sampling_of,
    table_in,
)
from ripieno.protocols.openai_choices import choice_in, choice_keys
from ripieno.protocols.openai_responses.invocations import declared_by

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
        choice, allowed = choice_in(native, _named, nested=False)
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


def _named(tool: Mapping[str, Any]) -> str:
    """The name in ``{"type": "function", "name"}``."""
    if tool.get("type") not in _KINDS:
        raise InputError(
            f"tool_choice has the type {tool.get('type')!r}; known are {', '.join(_KINDS)} and allowed_tools."
        )
    return str(tool["name"])


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The keys of a request about the choice among its tools. Errors: ``InputError``."""
    return choice_keys(controls, offer, capabilities, functools.partial(_naming, offer), nested=False)


def _naming(offer: Offer, name: str) -> dict[str, str]:
    """The word for one tool, which says what kind it has."""
    invoker = offer.named(name)
    freeform = invoker is not None and declared_by(invoker) is not None
    return {"type": "custom" if freeform else "function", "name": name}
