"""The prompt that describes tools, the form of calls, and the form of results."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Controls
from ripieno.ensembles import Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import EMPTY, encode, is_list, is_table
from ripieno.models.protocols.common.tools import described
from ripieno.models.protocols.prompted.styles import Style
from ripieno.schemas.lowering import PLAIN, lower

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
