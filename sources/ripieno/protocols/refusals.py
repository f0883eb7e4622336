"""What endpoints say when they refuse: their own words, in the shapes that servers use, and what to do next."""

from typing import Any

from ripieno.descriptors.tables import is_list, is_table
from ripieno.exceptions import JsonInvalidity, ProviderRefusal
from ripieno.jsonvalues import parse

#: Characters of a refusal that are shown.
_SHOWN = 500
#: Where servers put their words, at any level: the first one that has some.
_KEYS = ("error", "errors", "detail", "message", "msg")
_DEPTH = 4


def refusal(provider: str, status: int, text: str, *, location: str | None = None) -> ProviderRefusal:
    """The error that an endpoint answered. ``text`` is the body, ``location`` where a redirect points to."""
    try:
        body: object = parse(text)
    except JsonInvalidity:
        body = None
    words = message_of(body) or text.strip() or "it gave no reason"
    if 300 <= status < 400:
        words = f"it redirects to {location or 'nowhere'}"
    return ProviderRefusal(
        provider, f"HTTP {status}: {words[:_SHOWN]}", hint=_hint(provider, status), status=status, body=body
    )


def _hint(provider: str, status: int) -> str:
    if 300 <= status < 400:
        return "Redirects are not followed, for the key would go along: set base_url to where it is."
    if status >= 500:
        return "The fault is on its side: try again later."
    return {
        400: "Does this model take such a request? Its capabilities can be set in the provider's data.",
        401: f"Is api_key of [providers.{provider}] right?",
        402: "Its credit is used up; pay, or use another model.",
        403: "Is the key allowed to do this?",
        404: "Is the name of the model right, and base_url?",
        413: "The request is too large: shorten the conversation.",
        429: "Its rate or its quota is used up; wait, or use another model.",
    }.get(status, "The endpoint does not take this request.")


def message_of(body: Any, depth: int = _DEPTH) -> str:
    """The words in the body of an error.

    Known are ``{"error": {"message"}}``, ``{"error": "…"}``, ``{"detail": "…"}``, ``{"detail": [{"msg"}]}``,
    ``{"message"}``, ``{"errors": […]}``, and any of these in a list; and ``metadata.raw``, where one that passes errors
    on puts what it was told itself.
    """
    if isinstance(body, str):
        return body
    if depth and is_list(body):
        return "; ".join(filter(None, (message_of(one, depth - 1) for one in body[:3])))
    if not depth or not is_table(body):
        return ""
    words = next(filter(None, (message_of(body.get(key), depth - 1) for key in _KEYS)), "")
    metadata = body.get("metadata")
    told = metadata.get("raw") if is_table(metadata) else None
    return f"{words}: {told}" if isinstance(told, str) and told else words
