"""How an answer of the Responses wire ends: why, and what it used; both directions."""

import functools
from collections.abc import Mapping

from ripieno.controls import Finish
from ripieno.protocols.openai_forms import usage_as, usage_in

#: What an answer that is incomplete gives as its reason; an unknown one has cut it all the same.
_CUTS: Mapping[str, Finish] = {"content_filter": "filter"}
REASONS: Mapping[Finish, str] = {"length": "max_output_tokens", "filter": "content_filter"}
#: Usage in our words, and as the wire counts it.
usage_of = functools.partial(usage_in, sent="input_tokens", made="output_tokens")
usage_object = functools.partial(usage_as, sent="input_tokens", made="output_tokens")


def finish_of(reason: str) -> Finish:
    """Why an answer ended, as far as the wire says it: calls and refusals are no reasons there."""
    return "stop" if reason == "completed" else _CUTS.get(reason, "length")
