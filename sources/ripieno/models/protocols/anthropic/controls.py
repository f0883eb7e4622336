"""Controls of the Messages wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.canisters.controls import Reasoning
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.models.protocol import Capabilities, ControlsProcessor, Native
from ripieno.models.protocols.common.requests import (
    choice_of,
    count_in,
    effort_in,
    flag_in,
    format_in,
    format_of,
    number_in,
    present,
    sampling_of,
    table_in,
    texts_in,
    tuning_of,
)

#: The limit if neither the controls nor the provider's data set one.
OUTPUT_TOKENS = 8192
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_THINKING = ("enabled", "adaptive", "disabled", "between_tools")
#: Thinking budgets, in tokens, up to which the effort is low or medium.
_BUDGETS: Sequence[tuple[int, Reasoning]] = ((4096, "low"), (16384, "medium"))
_CHOICES_BACK = {native: choice for choice, native in _CHOICES.items()}


class AnthropicControls(ControlsProcessor):
    """Controls with ``max_tokens`` always, and sampling only if the provider's data allows it."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        form, reasoning = format_of(controls, capabilities), controls.reasoning
        schema = None if form is None else form.schema
        output = {
            "effort": None if reasoning == "none" else reasoning,
            "format": None if schema is None else {"type": "json_schema", "schema": schema},
        }
        native = {
            "max_tokens": controls.output_tokens or capabilities.get("output_tokens") or OUTPUT_TOKENS,
            **sampling_of(controls, capabilities, default=False),
            **tuning_of(controls, "Messages", {}),
            "stop_sequences": controls.stop or None,
            "thinking": reasoning and {"type": "disabled" if reasoning == "none" else "adaptive"},
            "output_config": present(output) or None,
            "stream": controls.stream or None,
        }
        return present(native)

    def normalize(self, native: Native) -> Controls:
        choice, output = table_in(native, "tool_choice"), table_in(native, "output_config")
        serial = flag_in(choice, "disable_parallel_tool_use")
        form = table_in(output, "format")
        return Controls(
            temperature=number_in(native, "temperature"),
            output_tokens=count_in(native, "max_tokens"),
            top_p=number_in(native, "top_p"),
            stop=texts_in(native, "stop_sequences"),
            reasoning=_reasoning(table_in(native, "thinking"), effort_in(output, "effort")),
            stream=flag_in(native, "stream") or False,
            tool_choice=_chosen(choice),
            parallel=None if serial is None else not serial,
            format=format_in(form, form, "output_config.format") if form else None,
        )


CONTROLS = AnthropicControls()


def _reasoning(thinking: Mapping[str, Any], effort: Reasoning | None) -> Reasoning | None:
    """The effort, or the nearest one to a thinking budget. Errors: ``InputError`` for an unknown type."""
    kind = thinking.get("type")
    if kind is not None and kind not in _THINKING:
        raise RequestInvalidity(
            f"thinking has the type {kind!r}; known are {', '.join(_THINKING)}.", parameter="thinking.type"
        )
    if kind == "disabled":
        return "none"
    if kind != "enabled" or effort is not None:
        return effort
    budget = number_in(thinking, "budget_tokens")
    if budget is None:
        return None
    efforts: list[Reasoning] = [effort for tokens, effort in _BUDGETS if budget <= tokens]
    return efforts[0] if efforts else "high"


def _chosen(choice: Mapping[str, Any]) -> str | None:
    kind = choice.get("type")
    if kind is None:
        return None
    if kind == "tool":
        name = choice.get("name")
        if not isinstance(name, str) or not name:
            raise RequestInvalidity("tool_choice has a tool without a name.", parameter="tool_choice")
        return name
    if kind not in _CHOICES_BACK:
        raise RequestInvalidity(
            f"tool_choice has the type {kind!r}; known are auto, any, tool and none.", parameter="tool_choice"
        )
    return _CHOICES_BACK[kind]


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any] | None:
    """The choice among tools in the wire's form; None leaves it to the provider. Errors: ``InputError``."""
    choice = choice_of(controls, offer, capabilities)
    parallel = controls.parallel if capabilities.get("parallel_calls", True) else None
    if choice is None and parallel is None:
        return None
    kind = _CHOICES.get(choice or "auto")
    native: dict[str, Any] = {"type": "tool", "name": choice} if kind is None else {"type": kind}
    if parallel is not None and kind != "none":
        native["disable_parallel_tool_use"] = not parallel
    return native
