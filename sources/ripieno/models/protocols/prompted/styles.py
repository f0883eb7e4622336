"""Styles of calls in a prompt, one for each family of models; each is a form that the parser knows."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.jsonvalues import encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A style. ``write`` gives the text of a call from its name, its arguments, and their JSON."""

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
