"""What endpoints say when they refuse: their own words, in the shapes that servers use, and what to do next."""

from collections.abc import Mapping
from typing import Any

from ripieno.descriptors.policies import LONGEST_ASKED
from ripieno.exceptions import JsonInvalidity, ProviderRefusal
from ripieno.execution.retries import seconds_after
from ripieno.jsonvalues import is_list, is_table, parse

#: Characters of a refusal that are shown.
_SHOWN = 500
#: Where servers put their words, at any level: the first one that has some.
_KEYS = ("error", "errors", "detail", "message", "msg")
_DEPTH = 4


#: What a status means, by seed 000, section 7.1, and whether the same request may do better in a moment.
_STATUSES: Mapping[int, tuple[str, bool]] = {
    401: ("permission", False),
    402: ("quota", False),
    403: ("permission", False),
    404: ("resource", False),
    408: ("timeout", True),
    409: ("resource", True),  # Somebody else holds a lock on it.
    410: ("resource", False),
    429: ("quota", True),
    504: ("timeout", True),
}
#: The same for the words by which errors are called inside an answer: the first that is found in one of them.
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
#: Where errors are called by a word, or by a status.
_NAMES = ("code", "type", "status")


def refusal(
    provider: str, status: int, text: str, *, location: str | None = None, headers: Mapping[str, str] | None = None
) -> ProviderRefusal:
    """The error that an endpoint answered. ``text`` is the body, ``location`` where a redirect points to.

    ``headers``, with names in lower case, may say when to ask again, and whether to.
    """
    try:
        body: object = parse(text)
    except JsonInvalidity:
        body = None
    words = message_of(body) or text.strip() or "it gave no reason"
    if 300 <= status < 400:
        words = f"it redirects to {location or 'nowhere'}"
    category, retryable = _judge_status(status)
    if category == "quota" and judge(body) == ("quota", False):
        retryable = False
    given = headers or {}
    if (said := given.get("x-should-retry")) in ("true", "false"):
        retryable = said == "true"
    after = seconds_after(given)
    return ProviderRefusal(
        provider,
        f"HTTP {status}: {words[:_SHOWN]}",
        hint=_hint(provider, status) + _waiting(after, retryable=retryable),
        status=status,
        body=body,
        category=category,
        retryable=retryable,
        after=after,
    )


def judge(body: Any) -> tuple[str, bool]:
    """The category of an error that stands inside an answer, and whether the same request may do better in a moment."""
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


def _waiting(after: float | None, *, retryable: bool) -> str:
    """For how long the server wants to be left alone, and why it was not waited for."""
    if after is None or after < 1:
        return ""
    longer = retryable and after > LONGEST_ASKED
    why = f", which is longer than is waited for ({LONGEST_ASKED:g} s): it was not asked again" if longer else ""
    return f" It wants to be left alone for {after:.0f} s{why}."


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
