"""Errors of endpoints: their messages, in the shapes that servers use, with a category and a hint."""

from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.policies import LONGEST_ASKED
from ripieno.exceptions import JsonInvalidity, ProviderRefusal
from ripieno.execution.retries import seconds_after
from ripieno.jsonvalues import is_list, is_table, parse

#: Characters of a refusal that are shown.
_SHOWN = 500
#: Keys of error messages, at any level; the first nonempty value counts.
_KEYS = ("error", "errors", "detail", "message", "msg")
_DEPTH = 4
#: The category of each status (seed 000, section 7.1), and whether a retry may succeed soon.
_STATUSES: Mapping[int, tuple[str, bool]] = {
    401: ("permission", False),
    402: ("quota", False),
    403: ("permission", False),
    404: ("resource", False),
    408: ("timeout", True),
    409: ("resource", True),  # Another client holds a lock.
    410: ("resource", False),
    429: ("quota", True),
    504: ("timeout", True),
}
#: The same by the name of an error inside an answer; the first word that a name contains counts.
_WORDS: Mapping[str, tuple[str, bool]] = {
    "insufficient_quota": ("quota", False),
    "billing": ("quota", False),
    "rate_limit": ("quota", True),
    "ratelimit": ("quota", True),
    "resource_exhausted": ("quota", True),
    "throttling": ("quota", True),
    "timeout": ("timeout", True),
    "deadline": ("timeout", True),
    "overloaded": ("network", True),
    "unavailable": ("network", True),
    "server_error": ("network", True),
    "api_error": ("network", True),
    "internal": ("network", True),
    "streamerror": ("network", True),
    "authentication": ("permission", False),
    "permission": ("permission", False),
    "not_found": ("resource", False),
    "invalid": ("validation", False),
    "validation": ("validation", False),
}
#: The words of Ollama in an error for a model without native calls.
_WITHOUT_TOOLS = "does not support tools"
#: Keys of an error's name or status.
_NAMES = ("code", "type", "status")


def refusal(provider: str, status: int, text: str, headers: Mapping[str, str]) -> ProviderRefusal:
    """The error for an endpoint's refusal. ``text`` is the body.

    ``headers``, with lower-case names, have the target of a redirect, and may state whether and when to retry.
    """
    try:
        body: object = parse(text)
    except JsonInvalidity:
        body = None
    words = message_of(body) or text.strip() or "it gave no reason"
    if 300 <= status < 400:
        words = f"it redirects to {headers.get('location') or 'nowhere'}"
    category, retryable = _judge_status(status)
    if category == "quota" and judge(body) == ("quota", False):
        retryable = False
    if (should_retry := headers.get("x-should-retry")) in ("true", "false"):
        retryable = should_retry == "true"
    after = seconds_after(headers)
    return ProviderRefusal(
        provider,
        f"HTTP {status}: {words[:_SHOWN]}",
        hint=_hint(provider, status, words) + _waiting(after, retryable=retryable),
        status=status,
        body=body,
        category=category,
        retryable=retryable,
        after=after,
    )


def judge(body: Any) -> tuple[str, bool]:
    """The category of an error inside an answer, and whether a retry may succeed soon."""
    error: Any = body.get("error", body) if is_table(body) else None
    if not is_table(error):
        return "execution", False
    names = [error.get(name) for name in _NAMES]
    for name in names:
        if isinstance(name, int) and not isinstance(name, bool) and 400 <= name < 600:
            return _judge_status(name)
    called = [name.casefold() for name in names if isinstance(name, str)]
    for word, meaning in _WORDS.items():
        if any(word in name for name in called):
            return meaning
    return "execution", False


def _judge_status(status: int) -> tuple[str, bool]:
    if status >= 500:
        return _STATUSES.get(status, ("network", True))
    return _STATUSES.get(status, ("resource" if status < 400 else "validation", False))


def _hint(provider: str, status: int, words: str) -> str:
    if status == 400 and _WITHOUT_TOOLS in words:
        row = '{ match = "MODEL", function_calling = false }'
        return f"To describe the tools in its prompt instead: models = [{row}] under [providers.{provider}]."
    if 300 <= status < 400:
        return "Redirects are not followed, since the target would receive the key. Set base_url to the new address."
    if status >= 500:
        return "The provider has a problem. Try again later."
    return {
        400: "Check that this model supports such a request. Its capabilities can be set in the provider's data.",
        401: f"Check api_key of [providers.{provider}].",
        402: "The credit is used up. Add credit, or use another model.",
        403: "Check that the key has permission for this.",
        404: "Check the name of the model and base_url.",
        413: "The request is too large. Shorten the conversation.",
        429: "The rate limit or quota is used up. Wait, or use another model.",
    }.get(status, "The endpoint does not accept this request.")


def _waiting(after: float | None, *, retryable: bool) -> str:
    """The pause that the server requests, and why there was no retry after it."""
    if after is None or after < 1:
        return ""
    longer = retryable and after > LONGEST_ASKED
    why = f", longer than the limit ({LONGEST_ASKED:g} s), so there was no retry" if longer else ""
    return f" It requests a pause of {after:.0f} s{why}."


def message_of(body: Any, depth: int = _DEPTH) -> str:
    """The message in the body of an error.

    Known shapes: ``{"error": {"message"}}``, ``{"error": "…"}``, ``{"detail": "…"}``, ``{"detail": [{"msg"}]}``,
    ``{"message"}``, ``{"errors": […]}``, any of these in a list, and ``metadata.raw``, in which a router repeats the
    error that it received.
    """
    if isinstance(body, str):
        return body
    if depth and is_list(body):
        return "; ".join(filter(None, (message_of(one, depth - 1) for one in body[:3])))
    if not depth or not is_table(body):
        return ""
    words = next(filter(None, (message_of(body.get(key), depth - 1) for key in _KEYS)), "")
    metadata = body.get("metadata")
    raw = metadata.get("raw") if is_table(metadata) else None
    return f"{words}: {raw}" if isinstance(raw, str) and raw else words
