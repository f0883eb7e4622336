"""Parameters that both wires of OpenAI's making have: what of them is refused, formats of answers, free-form calls."""

import dataclasses
from typing import Any

from ripieno.canisters import InvocationCanister
from ripieno.canisters.controls import Format
from ripieno.jsonvalues import EMPTY, encode
from ripieno.protocols.checking import Check, refused, unless

#: What asks for something that no other wire can say.
UNSAYABLE = "{key} = {value} cannot be passed on to every model: leave {key} out."
_LOGARITHMS = "{key} = {value} asks for probabilities of tokens, which are not passed on: leave {key} out."
CHECKS: dict[str, Check] = {
    "frequency_penalty": unless(0, why=UNSAYABLE),
    "presence_penalty": unless(0, why=UNSAYABLE),
    "top_logprobs": unless(0, why=_LOGARITHMS),
    "logprobs": unless(False, why=_LOGARITHMS),
    "logit_bias": unless({}, why=UNSAYABLE),
    "seed": refused(UNSAYABLE),
    "moderation": refused("Nothing is moderated here: leave {key} out."),
}


def format_object(form: Format, inner: str | None = None) -> dict[str, Any]:
    """A format as these wires say it; ``inner`` is the key of the object in which one of them has its schema."""
    if form.kind == "json_object":
        return {"type": form.kind}
    said: dict[str, Any] = {"name": form.name or "answer", "schema": form.schema}
    if form.description:
        said["description"] = form.description
    if form.strict is not None:
        said["strict"] = form.strict
    return {"type": form.kind, **(said if inner is None else {inner: said})}


def as_function(call: InvocationCanister) -> InvocationCanister:
    """A free-form call as one of a function with one text, for whoever knows only these; any other as it is."""
    if call.kind != "freeform":
        return call
    text = str(call.arguments.get("input") or "") if call.raw is None else call.raw
    return dataclasses.replace(call, kind="function", raw=encode({"input": text}).decode(), opaque=EMPTY)
