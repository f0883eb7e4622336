"""Finish reasons and usage of the chat completions wire, both directions."""

import functools
from collections.abc import Mapping

from ripieno.canisters.controls import Finish
from ripieno.models.protocols.common.openai import usage_as, usage_in

#: The known reasons.
FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "tool_calls": "invocations",
    "function_call": "invocations",
    "length": "length",
    "content_filter": "filter",
}
#: Any other finish is ``stop``.
REASONS: Mapping[Finish, str] = {
    "invocations": "tool_calls",
    "length": "length",
    "filter": "content_filter",
    "open": "tool_calls",
}
#: Usage from the wire, and in the wire's form.
usage_of = functools.partial(usage_in, sent="prompt_tokens", made="completion_tokens")
usage_object = functools.partial(usage_as, sent="prompt_tokens", made="completion_tokens")
