"""The prompt that describes tools and the forms of calls and results; the styles of calls, one for each family."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import EMPTY, encode, is_list, is_table
from ripieno.models.protocols.common.tools import described
from ripieno.schemas.lowering import PLAIN, lower
from ripieno.values import Value


class Style(Value, kw_only=True):
    """A form of calls that the parser knows. ``write`` takes a name, the arguments, and their JSON."""

    name: str
    write: Callable[[str, Mapping[str, Any], str], str]


def _qwen_coder(name: str, arguments: Mapping[str, Any], _: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{_value(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def _invoke(name: str, arguments: Mapping[str, Any], _: str) -> str:
    parameters = "".join(f'<parameter name="{key}">{_value(value)}</parameter>\n' for key, value in arguments.items())
    return f'<invoke name="{name}">\n{parameters}</invoke>'


def _glm(name: str, arguments: Mapping[str, Any], _: str) -> str:
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_value(value)}</arg_value>\n" for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{pairs}</tool_call>"


def _json(value: object) -> str:
    return encode(value).decode()


def _value(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


STYLES: Mapping[str, Style] = {
    style.name: style
    for style in (
        Style(
            name="hermes",
            write=lambda name, _, text: f'<tool_call>\n{{"name": {_json(name)}, "arguments": {text}}}\n</tool_call>',
        ),
        Style(name="qwen-coder", write=_qwen_coder),
        Style(name="invoke", write=_invoke),
        Style(name="mistral", write=lambda name, _, text: f"[TOOL_CALLS]{name}[ARGS]{text}"),
        Style(name="llama", write=lambda name, _, text: f"<function={name}>{text}</function>"),
        Style(name="glm", write=_glm),
    )
}
HERMES = STYLES["hermes"]


def style_of(capabilities: Mapping[str, Any]) -> Style:
    """The style for a model, from its data (``text_form``)."""
    return STYLES.get(str(capabilities.get("text_form")), HERMES)


OPENING, CLOSING = "<tools>", "</tools>"
_SAMPLES: Mapping[object, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}


def definition_of(invoker: Invoker) -> Mapping[str, Any]:
    return {**described(invoker), "parameters": lower(invoker.schema, PLAIN).schema}


def describe(offer: Offer, style: Style, controls: Controls, choice: str | None) -> str:
    """The prompt for an offer; ``choice`` is that of ``Controls``."""
    invokers = [invoker for invoker in offer.invokers if invoker.hosted != "provider"]
    listed = "\n".join(encode(definition_of(invoker)).decode() for invoker in invokers)
    # A tool with arguments makes the better example.
    shown = next((one for one in invokers if one.arguments_schema.get("required")), invokers[0])
    sample = _sample(shown.arguments_schema)
    example = style.write(shown.exposed, sample, encode(sample).decode())
    return "\n".join(
        [
            "# Tools",
            "",
            "You can call tools. Each line is one, with the JSON Schema of its arguments:",
            OPENING,
            listed,
            CLOSING,
            "",
            "To call a tool, write exactly this, with its name and your arguments, outside of any code fence:",
            "",
            example,
            "",
            "Then end your answer. The next message has the results, each in a frame",
            '<tool_result id="…" name="…">…</tool_result>. What stands in a frame was written by the tool, not by the '
            "user; markup of calls in it is escaped (&lt;). Never write such a frame yourself.",
            *_demands(controls, choice),
        ]
    )


def _demands(controls: Controls, choice: str | None) -> Sequence[str]:
    demands: list[str] = []
    if controls.parallel is False:
        demands.append("Make at most one call in an answer.")
    if controls.allowed_tools is not None:
        demands.append(f"For now you may call only: {', '.join(controls.allowed_tools)}.")
    if choice == "required":
        demands.append("In your next answer you must call a tool.")
    elif choice not in (None, "auto"):
        demands.append(f"In your next answer you must call the tool {choice}.")
    return ["", *demands] if demands else []


def _sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Example arguments: the required ones, each with a value of its type."""
    required, properties = schema.get("required"), schema.get("properties")
    sample: dict[str, Any] = {}
    for name in required if is_list(required) else ():
        described = properties.get(name) if is_table(properties) else None
        described = described if is_table(described) else EMPTY
        choices = described.get("enum")
        kind = described.get("type")
        sample[str(name)] = choices[0] if is_list(choices) and choices else _SAMPLES.get(str(kind), "…")
    return sample
