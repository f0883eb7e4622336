"""All forms, in the order in which they are tried, and the frames around what is only quoted."""

# ruff: noqa: RUF001  models write these signs

from collections.abc import Mapping

from ripieno.protocols.texts import brackets, harmony, tags, tokens, wholes
from ripieno.protocols.texts.forms import Form

FORMS: tuple[Form, ...] = (*tags.FORMS, *brackets.FORMS, *tokens.FORMS, *harmony.FORMS, *wholes.FORMS)
#: What begins a quotation of a tool's output, and what ends it: nothing in it is a call.
QUOTES: Mapping[str, str] = {
    "<tool_result": "</tool_result",
    "<tool_response": "</tool_response",
    "<tool_output": "</tool_output",
    "<function_result": "</function_result",
    "[TOOL_RESULTS]": "[/TOOL_RESULTS]",
    "<｜tool▁outputs▁begin｜>": "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>": "<｜tool▁output▁end｜>",
}
