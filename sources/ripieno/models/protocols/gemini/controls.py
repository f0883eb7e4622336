"""Controls of the generateContent wire."""

from collections.abc import Mapping
from typing import Any

from ripieno.canisters import Controls
from ripieno.canisters.controls import Format, Reasoning
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_table
from ripieno.models.protocol import Capabilities, ControlsProcessor, Native
from ripieno.models.protocols.common.requests import (
    choice_of,
    count_in,
    format_of,
    number_in,
    present,
    sampling_of,
    schema_format,
    strict_of,
    table_in,
    texts_in,
    tuning_in,
    tuning_of,
)
from ripieno.models.protocols.gemini.schemas import schema_of

#: The methods that a client appends to the model's name, and whether each streams.
METHODS: Mapping[str, bool] = {"generateContent": False, "streamGenerateContent": True}
_JSON = "application/json"
_WORDS = {"temperature": "temperature", "top_p": "topP"}
_TUNING = {"seed": "seed", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
#: Thinking budgets, in tokens, of models without levels, from the provider's table of efforts.
_BUDGETS: Mapping[Reasoning, int] = {"none": 0, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS: Mapping[Reasoning, str] = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
_EFFORTS: Mapping[str, Reasoning] = {**{level: effort for effort, level in _LEVELS.items()}, "XHIGH": "high"}


class GeminiControls(ControlsProcessor):
    """Controls are in one object; the path says whether to stream."""

    def nativize(self, controls: Controls, capabilities: Capabilities) -> Mapping[str, Any]:
        form, reasoning = format_of(controls, capabilities), controls.reasoning
        native = present(
            {
                "maxOutputTokens": controls.output_tokens,
                **{_WORDS[name]: value for name, value in sampling_of(controls, capabilities).items()},
                **tuning_of(controls, "generateContent", _TUNING),
                "stopSequences": controls.stop or None,
                "thinkingConfig": None if reasoning is None else _thinking(reasoning, capabilities),
                "responseMimeType": None if form is None else _JSON,
                "responseJsonSchema": None if form is None else form.schema,
            }
        )
        return {"generationConfig": native} if native else {}

    def normalize(self, native: Native) -> Controls:
        config = table_in(native, "generationConfig")
        choice, allowed = _chosen(table_in(table_in(native, "toolConfig"), "functionCallingConfig"))
        return Controls(
            temperature=number_in(config, "temperature"),
            output_tokens=count_in(config, "maxOutputTokens"),
            top_p=number_in(config, "topP"),
            stop=texts_in(config, "stopSequences"),
            reasoning=_reasoning(table_in(config, "thinkingConfig")),
            stream=METHODS.get(str(native.get("method")), False),
            tool_choice=choice,
            allowed_tools=allowed,
            format=_format(config),
            **tuning_in(config, _TUNING),
        )


CONTROLS = GeminiControls()


def _format(config: Native) -> Format | None:
    """The required format of an answer's text. Errors: ``InputError`` for a kind other than JSON."""
    kind = config.get("responseMimeType")
    schema = config.get("responseJsonSchema")
    if schema is None and is_table(own := config.get("responseSchema")):
        schema = schema_of(own)
    if kind in (None, "text/plain") and schema is None:
        return None
    if kind not in (None, _JSON):
        raise RequestInvalidity(
            f"responseMimeType is {kind!r}; known are text/plain and {_JSON}.",
            parameter="generationConfig.responseMimeType",
        )
    key = "generationConfig.responseJsonSchema"
    return Format(kind="json_object") if schema is None else schema_format(schema, key)


def _thinking(reasoning: Reasoning, capabilities: Capabilities) -> dict[str, Any]:
    """The level or budget of thinking. Thoughts are requested, unless there should be none."""
    shown: dict[str, Any] = {} if reasoning == "none" else {"includeThoughts": True}
    if capabilities.get("thinking_budgets", False):
        return {"thinkingBudget": _BUDGETS[reasoning], **shown}
    return {"thinkingLevel": _LEVELS[reasoning], **shown}


def _reasoning(thinking: Mapping[str, Any]) -> Reasoning | None:
    """The nearest of our efforts. Errors: ``InputError`` for an unknown level."""
    level = thinking.get("thinkingLevel")
    if level is not None and level != "THINKING_LEVEL_UNSPECIFIED":
        if not isinstance(level, str) or level.upper() not in _EFFORTS:
            raise RequestInvalidity(
                f"thinkingLevel is one of {', '.join(_EFFORTS)}; not {level!r}.",
                parameter="generationConfig.thinkingConfig.thinkingLevel",
            )
        return _EFFORTS[level.upper()]
    budget = number_in(thinking, "thinkingBudget")
    if budget is None or budget < 0:
        return None  # The model decides.
    efforts: list[Reasoning] = [effort for effort, tokens in _BUDGETS.items() if budget <= tokens]
    return efforts[0] if efforts else "high"


def _chosen(config: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among tools, and the allowed ones. Errors: ``InputError`` for an unknown mode."""
    mode = config.get("mode")
    names = texts_in(config, "allowedFunctionNames")
    if mode in (None, "MODE_UNSPECIFIED"):
        return None, names
    if mode == "NONE":
        return "none", None
    if mode in ("AUTO", "VALIDATED"):
        return "auto", names
    if mode != "ANY":
        raise RequestInvalidity(
            f"The mode of functionCallingConfig is {mode!r}; known are AUTO, ANY, NONE and VALIDATED.",
            parameter="toolConfig.functionCallingConfig.mode",
        )
    return (names[0], None) if names and len(names) == 1 else ("required", names)


def tool_choice(controls: Controls, offer: Offer, capabilities: Capabilities) -> dict[str, Any] | None:
    """The choice among tools in the wire's form; None leaves it to the provider. Errors: ``InputError``."""
    choice = choice_of(controls, offer, capabilities)
    if controls.allowed_tools and choice in (None, "auto", "required") and capabilities.get("allowed_tools", False):
        # Names are allowed in two modes; only VALIDATED also allows a text.
        mode = "ANY" if choice == "required" else "VALIDATED"
        return _config(mode, *offer.sent(controls.allowed_tools))
    if strict_of(controls, capabilities) and choice in (None, "auto"):
        return _config("VALIDATED")  # The other modes with calls enforce schemas anyway.
    if choice is None:
        return None
    return _config(_MODES[choice]) if choice in _MODES else _config("ANY", choice)


def _config(mode: str, *names: str) -> dict[str, Any]:
    allowed = {"allowedFunctionNames": list(names)} if names else {}
    return {"functionCallingConfig": {"mode": mode, **allowed}}
