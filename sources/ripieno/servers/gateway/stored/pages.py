"""Pages of lists, as the official clients read them: the newest first, from a cursor on."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.exceptions import RequestInvalidity

_USUAL, _MOST = 20, 100
_ORDERS = ("asc", "desc")


def page_of(items: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """A page of items, which are the oldest first. ``query`` may have ``limit``, ``order`` and ``after``.

    Errors: ``RequestInvalidity``.
    """
    order = query.get("order", "desc")
    if order not in _ORDERS:
        raise RequestInvalidity("order is asc or desc.", parameter="order")
    limit = number_in(query, "limit", _USUAL)
    if not 1 <= limit <= _MOST:
        raise RequestInvalidity(f"limit is a number from 1 to {_MOST}.", parameter="limit")
    ordered = list(items) if order == "asc" else list(reversed(items))
    after = query.get("after")
    if after is not None:
        places = [place for place, one in enumerate(ordered) if one.get("id") == after]
        if not places:
            raise RequestInvalidity("after is no identifier of an item in this list.", parameter="after")
        ordered = ordered[places[0] + 1 :]
    shown = ordered[:limit]
    ends = {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return {"object": "list", "data": shown, "has_more": len(ordered) > limit, **ends}


def number_in(query: Mapping[str, str], name: str, usual: int) -> int:
    """A number of a query. Errors: ``RequestInvalidity``."""
    text = query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RequestInvalidity(f"{name} is a number.", parameter=name)
    return int(text)
