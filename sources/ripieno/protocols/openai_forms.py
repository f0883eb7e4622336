"""What the wires of OpenAI's making say alike: errors, data URLs, texts of calls, and when reasoning returns."""

import base64
from collections.abc import Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister, UserCanister
from ripieno.exceptions import InputError
from ripieno.jsonvalues import encode
from ripieno.processors import Capabilities

_ERRORS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_object(status: int, message: str) -> dict[str, Any]:
    """An error as the body of an answer has it."""
    kind = _ERRORS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": message, "type": kind, "param": None, "code": None}


def refuse(status: int, message: str) -> bytes:
    """The body of an answer that is an error."""
    return encode({"error": error_object(status, message)})


def data_url(data: bytes, mime_type: str) -> str:
    """Bytes as a URL."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str) -> tuple[str, bytes]:
    """The kind and the bytes of such a URL. Errors: ``InputError``."""
    head, _, data = url.removeprefix("data:").partition(",")
    return head.partition(";")[0] or "text/plain", decoded(data)


def decoded(data: object) -> bytes:
    """Bytes that stand as base64. Errors: ``InputError``."""
    try:
        return base64.b64decode(str(data), validate=True)
    except ValueError as error:
        raise InputError(f"A part holds what is no base64: {error}.") from error


def text_of_call(invocation: InvocationCanister, *, verbatim: bool = True) -> str:
    """The arguments of a call as text, or its free-form input. ``verbatim``: also where they cannot be read."""
    arguments: Any = invocation.arguments
    if invocation.kind == "freeform":
        return str(arguments.get("input") or "") if invocation.raw is None else invocation.raw
    if invocation.raw is None:
        return encode(arguments).decode()
    unreadable = invocation.fault is not None and not arguments
    return invocation.raw if invocation.raw.strip() and (verbatim or not unreadable) else "{}"


def replay_from(canisters: Sequence[Canister], capabilities: Capabilities, *, otherwise: str = "never") -> int:
    """The place of the first canister whose reasoning returns: it does never, always, or until the user speaks.

    ``otherwise`` is what holds where the provider's data does not say.
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
