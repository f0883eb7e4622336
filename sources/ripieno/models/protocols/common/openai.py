"""Code of both OpenAI wires: tool choice, errors, data URLs, texts of calls, usage, formats, free-form calls.

For the choice among tools, the wires differ in how one tool is named, and in whether the allowed ones are in an object
of their own (``nested``).
"""

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    Canister,
    Content,
    Controls,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    UserCanister,
)
from ripieno.canisters.controls import Format
from ripieno.canisters.conversation import Usage
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import EMPTY, encode, is_list, is_table
from ripieno.models.protocol import Capabilities, Native, Refusal
from ripieno.models.protocols.common.parsing import unknown
from ripieno.models.protocols.common.requests import (
    TUNING,
    Check,
    choice_of,
    decoded,
    flag_in,
    number_in,
    refused,
    table_in,
    tables_in,
    tuning_in,
)
from ripieno.models.protocols.common.tools import Declared, hosted_word

_CHOICES = ("auto", "none", "required")
#: The controls that the chat completions wire has; clients send them over both wires.
TUNING_WORDS = {name: name for name in TUNING}
#: The kinds of tools that a client runs.
_OURS = ("function", "custom")
_ALLOWED = "allowed_tools"


def choice_in(native: Native, declared: Declared) -> tuple[str | None, tuple[str, ...] | None]:
    """The choice among the declared tools, and the allowed ones, in the form of either wire or of seed 004.

    Errors: ``InputError``.
    """
    choice, chosen = _choice_in(native, declared)
    allowed = native.get(_ALLOWED)
    if allowed is None:
        return choice, chosen
    if not is_list(allowed) or not all(isinstance(one, str) or is_table(one) for one in allowed):
        raise RequestInvalidity(
            'allowed_tools is a list of tools, such as ["read_file"]; an empty one allows none.', parameter=_ALLOWED
        )
    tools = [{"type": "function", "name": one} if isinstance(one, str) else one for one in allowed]
    names = tuple(name for tool in tools for name in _named(tool, declared))
    return choice, names if chosen is None else tuple(name for name in names if name in chosen)


def _choice_in(native: Native, declared: Declared) -> tuple[str | None, tuple[str, ...] | None]:
    choice = native.get("tool_choice")
    if choice is None or choice in _CHOICES:
        return choice, None
    if isinstance(choice, str):
        raise RequestInvalidity(
            f"tool_choice is {choice!r}; known are {', '.join(_CHOICES)}, and objects.", parameter="tool_choice"
        )
    choice = table_in(native, "tool_choice")
    forced = choice.get("forced_tool")
    if forced is None and choice.get("type") in _CHOICES:
        return choice["type"], None
    if forced is not None:
        if choice.get("type") in ("auto", "none") or not is_table(forced):
            raise RequestInvalidity(
                'forced_tool is a tool, such as {"type": "function", "name": "f"}. Leave out the type beside it.',
                parameter="tool_choice",
            )
        choice = forced
    if choice.get("type") != _ALLOWED:
        names = _named(choice, declared)
        return (names[0], None) if len(names) == 1 else ("required", tuple(names))
    allowed = table_in(choice, _ALLOWED) if choice.get(_ALLOWED) is not None else choice
    mode = allowed.get("mode") or "auto"
    if mode not in _CHOICES:
        raise RequestInvalidity(
            f"The mode of allowed_tools is {mode!r}; known are auto and required.", parameter="tool_choice"
        )
    return mode, tuple(name for tool in tables_in(allowed, "tools") for name in _named(tool, declared))


def read_controls(native: Native, declared: Declared, **fields: Any) -> Controls:
    """The controls that both wires write alike, and those in ``fields``. Errors: ``InputError``."""
    choice, allowed = choice_in(native, declared)
    return Controls(
        temperature=number_in(native, "temperature"),
        top_p=number_in(native, "top_p"),
        stream=flag_in(native, "stream") or False,
        tool_choice=choice,
        allowed_tools=allowed,
        parallel=flag_in(native, "parallel_tool_calls"),
        **tuning_in(native, TUNING_WORDS),
        **fields,
    )


def _named(tool: Native, declared: Declared) -> Sequence[str]:
    """The exposed names in a choice: one for a function, all of a namespace, ``hosted_word`` for a hosted tool."""
    kind = tool.get("type")
    inner = tool.get(kind) if isinstance(kind, str) else None
    body = inner if is_table(inner) else tool
    name, namespace = body.get("name"), body.get("namespace") or tool.get("namespace") or ""
    if kind in _OURS:
        if not isinstance(name, str) or not isinstance(namespace, str):
            raise RequestInvalidity(f"tool_choice has a {kind} without a name.", parameter="tool_choice")
        exposed = declared.exposed(name, namespace)
        if exposed is None and namespace:
            raise unknown(name, declared)
        # A name that is not declared may be that of a tool that runs at the gateway.
        return (exposed or name,)
    if kind == "namespace":
        found = [exposed for (space, _), exposed in declared.names.items() if space == name]
    else:
        label = body.get("server_label") or ""
        fits = [one for one in declared.hosted if one.kind == kind and (not label or one.label == label)]
        found = [hosted_word(one, str(body.get("name") or "")) for one in fits]
    if not found:
        raise unknown(name if kind == "namespace" else kind, declared)
    return found


def choice_keys(
    controls: Controls,
    offer: Offer,
    capabilities: Capabilities,
    naming: Callable[[str], Mapping[str, Any]],
    *,
    nested: bool,
) -> dict[str, Any]:
    """The request's keys for the choice among tools; ``naming`` writes one tool. Errors: ``InputError``."""
    native: dict[str, Any] = {}
    if controls.parallel is not None and capabilities.get("parallel_calls", True):
        native["parallel_tool_calls"] = controls.parallel
    choice = choice_of(controls, offer, capabilities)
    if controls.allowed_tools and choice in (None, "auto", "required") and capabilities.get(_ALLOWED, False):
        sent = [naming(name) for name in offer.sent(controls.allowed_tools)]
        allowed = {"mode": choice or "auto", "tools": sent}
        native["tool_choice"] = {"type": _ALLOWED, **({_ALLOWED: allowed} if nested else allowed)}
    elif choice is not None:
        native["tool_choice"] = choice if choice in _CHOICES else naming(choice)
    return native


_ERRORS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_object(refusal: Refusal) -> dict[str, Any]:
    kind = _ERRORS.get(refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error")
    return {"message": refusal.message, "type": kind, "param": refusal.parameter, "code": refusal.code}


def refuse(refusal: Refusal) -> bytes:
    return encode({"error": error_object(refusal)})


def data_url(data: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str) -> tuple[str, bytes]:
    """The kind and the bytes of a data URL. Errors: ``InputError``."""
    head, _, data = url.removeprefix("data:").partition(",")
    return head.partition(";")[0] or "text/plain", decoded(data)


def image_at(url: str) -> Content:
    """An image from a data URL; from any other URL, a document that the provider fetches. Errors: ``InputError``."""
    if not url.startswith("data:"):
        return DocumentContent(url=url, mime_type="image/*")
    mime_type, data = read_data_url(url)
    return ImageContent(data=data, mime_type=mime_type)


def text_of_call(invocation: InvocationCanister, *, verbatim: bool = True) -> str:
    """The arguments of a call as text, or its free-form input. ``verbatim`` keeps unreadable arguments."""
    arguments: Any = invocation.arguments
    if invocation.kind == "freeform":
        return str(arguments.get("input") or "") if invocation.raw is None else invocation.raw
    if invocation.raw is None:
        return encode(arguments).decode()
    unreadable = invocation.fault is not None and not arguments
    return invocation.raw if invocation.raw.strip() and (verbatim or not unreadable) else "{}"


def replay_from(canisters: Sequence[Canister], capabilities: Capabilities, *, otherwise: str = "never") -> int:
    """The position from which reasoning returns: the end (never), 0 (always), or the user's last canister (turn).

    ``otherwise`` applies if the provider's data has no rule.
    """
    rule = capabilities.get("reasoning_replay", otherwise)
    if rule == "always":
        return 0
    if rule == "turn":
        for place in range(len(canisters) - 1, -1, -1):
            if type(canisters[place]) is UserCanister:
                return place
        return 0
    return len(canisters)


def usage_in(native: Mapping[str, Any], *, sent: str, made: str) -> Usage:
    """Usage from the wire; ``sent`` and ``made`` are its keys for input and output tokens."""
    before, after = native.get(f"{sent}_details") or EMPTY, native.get(f"{made}_details") or EMPTY
    return Usage(
        input_tokens=native.get(sent) or 0,
        output_tokens=native.get(made) or 0,
        cache_read_tokens=before.get("cached_tokens") or 0,
        cache_write_tokens=before.get("cache_write_tokens") or 0,
        reasoning_tokens=after.get("reasoning_tokens") or 0,
    )


def usage_as(usage: Usage, *, sent: str, made: str) -> dict[str, Any]:
    return {
        sent: usage.input_tokens,
        f"{sent}_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
        made: usage.output_tokens,
        f"{made}_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


CHECKS: dict[str, Check] = {
    "moderation": refused("Nothing is moderated here: leave {key} out."),
}


def format_object(form: Format, inner: str | None = None) -> dict[str, Any]:
    """A format in the wires' form; ``inner`` is the key of the object that holds the schema, on one of them."""
    if form.kind == "json_object":
        return {"type": form.kind}
    body: dict[str, Any] = {"name": form.name or "answer", "schema": form.schema}
    if form.description:
        body["description"] = form.description
    if form.strict is not None:
        body["strict"] = form.strict
    return {"type": form.kind, **(body if inner is None else {inner: body})}


def as_function(call: InvocationCanister) -> InvocationCanister:
    """A free-form call as a function call with one text, for providers without the former; others unchanged."""
    if call.kind != "freeform":
        return call
    raw = encode({"input": text_of_call(call)}).decode()
    return dataclasses.replace(call, kind="function", raw=raw, opaque=EMPTY)
