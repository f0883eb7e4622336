"""The tools of an offer on a wire that has a search of its own: deferred ones are declared, and not loaded.

The provider searches and loads them; its model calls what it has found by its name. Our own search is not declared.
"""

from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import encode
from ripieno.processors import Request
from ripieno.protocols.asking import strict_of
from ripieno.protocols.pieces import Define, definitions


def declare(asked: Request, name: str, make: Define, search: Mapping[str, Any]) -> bytes | None:
    """The tools of a request as a JSON array; None when there are none.

    ``search`` is the wire's search tool. It is declared, and each deferred tool with ``defer_loading``, where the model
    has that (capability ``tool_search``); otherwise our own tools are, which find and call them.
    Errors: ``InputError``, as ``strict_of`` says.
    """
    offer, strict = asked.offer, strict_of(asked.controls, asked.capabilities)
    helpers = offer.helpers
    if helpers is None or not asked.capabilities.get("tool_search", False):
        return definitions(offer, name, make, strict=strict)
    key = (name, strict, "searched")
    kept = offer.encodings.get(key)
    if kept is None:
        deferred = [encode({**make(one, strict=strict), "defer_loading": True}) for one in offer.deferred]
        sent = [
            encode(make(one, strict=strict))
            for one in offer.invokers
            if one.hosted != "provider" and one is not helpers.search and one is not helpers.call
        ]
        # The last one is where a cache is marked, which no tool may be that is not loaded.
        kept = offer.encodings[key] = b"[" + b",".join((*deferred, *sent, encode(search))) + b"]"
    return kept
