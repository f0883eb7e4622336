"""Controls of the Responses wire."""

import functools
from collections.abc import Mapping
from typing import Any

from ripieno.canisters import Controls
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError
from ripieno.models.protocol import Capabilities, ControlsProcessor, Native
from ripieno.models.protocols.common.openai import choice_keys, format_object, read_controls
from ripieno.models.protocols.common.requests import (
    check,
    count_in,
    effort_in,
    format_in,
    format_of,
    present,
    sampling_of,
    table_in,
    tuning_of,
    unless,
)
from ripieno.models.protocols.common.tools import Declared
from ripieno.models.protocols.openai_responses.invocations import all_declared_in, declared_by, knows_freeform

_REASONING = {"mode": unless("standard", why="{key} = {value} is not supported by other wires: leave {key} out.")}


#: The Responses wire has these in the OpenResponses specification.
_PENALTIES = {name: name for name in ("presence_penalty", "frequency_penalty")}


class OpenaiResponsesControls(ControlsProcessor):
    """All controls except stop sequences, ``seed`` and ``logit_bias``."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        if controls.stop:
            raise InputError(
                "The Responses wire does not support stop: leave it out, or use this model over chat completions."
            )
        form = format_of(controls, capabilities)
        native = {
            "max_output_tokens": controls.output_tokens,
            **sampling_of(controls, capabilities),
            **tuning_of(controls, "Responses", _PENALTIES),
            "text": None if form is None else {"format": format_object(form)},
            "max_tool_calls": controls.tool_calls,
            "reasoning": None if controls.reasoning is None else {"effort": controls.reasoning},
            "stream": controls.stream or None,
        }
        return present(native)

    def normalize(self, native: Native) -> Controls:
        return controls_in(native, all_declared_in(native))


CONTROLS = OpenaiResponsesControls()


def controls_in(native: Native, declared: Declared) -> Controls:
    """The controls of a request with these tools. Errors: ``InputError``."""
    reasoning, text = table_in(native, "reasoning"), table_in(native, "text")
    check(reasoning, _REASONING, "reasoning.")
    form = table_in(text, "format")
    return read_controls(
        native,
        declared,
        output_tokens=count_in(native, "max_output_tokens"),
        reasoning=effort_in(reasoning, "effort"),
        format=format_in(form, form, "text.format") if form else None,
        tool_calls=count_in(native, "max_tool_calls"),
    )


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any]:
    """The request's keys for the choice among tools. Errors: ``InputError``."""
    return choice_keys(controls, offer, capabilities, functools.partial(_naming, offer, capabilities), nested=False)


def _naming(offer: Offer, capabilities: Capabilities, name: str) -> dict[str, str]:
    invoker = offer.named(name)
    freeform = invoker is not None and knows_freeform(capabilities) and declared_by(invoker) is not None
    return {"type": "custom" if freeform else "function", "name": name}
