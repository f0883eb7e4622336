"""The catalogue of searchable tools, and the choice of which tools are searchable.

A tool is searchable if it sets ``tool_search``. With more tools than ``search_over``, all possible ones are searchable.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.ensembles.ensemble import Ensemble, Invoker
from ripieno.ensembles.tool_search.ranking import Ranking
from ripieno.jsonvalues import is_list, is_table

#: The weight of a name: a query with a word of it probably means this tool.
_NAMED = 3
_LEVELS = 8
_NESTED = frozenset({"properties", "items", "anyOf", "oneOf"})


class Catalogue:
    """Searchable tools in their order. The first search, in any thread, makes the index."""

    def __init__(self, invokers: Iterable[Invoker]) -> None:
        self.invokers: tuple[Invoker, ...] = tuple(invokers)
        self._ranking: Ranking | None = None
        self._guard = threading.Lock()

    def search(self, query: str, limit: int) -> Sequence[Invoker]:
        """At most ``limit`` tools that have a word of the query, the best first; one with exactly this name leads."""
        with self._guard:
            ranking = self._ranking = self._ranking or Ranking(map(_text, self.invokers))
        found = [self.invokers[number] for number in ranking.rank(query, limit)]
        named = [one for one in self.invokers if one.exposed == query.strip()]
        return list(dict.fromkeys((*named, *found)))[:limit]


def _text(invoker: Invoker) -> str:
    """The indexed text of a tool: its name, its ensemble's name, its description and its arguments."""
    texts = [invoker.exposed] * _NAMED
    texts += (invoker.ensemble.name, invoker.description)
    _gather(invoker.arguments_schema, texts, _LEVELS)
    return " ".join(texts)


def _gather(schema: Mapping[str, Any], texts: list[str], levels: int) -> None:
    """Adds the names and descriptions of arguments, down to ``levels`` of nesting."""
    if levels < 0:
        return
    properties = schema.get("properties")
    for name, one in properties.items() if is_table(properties) else ():
        texts.append(name)
        if is_table(one):
            described = one.get("description")
            if isinstance(described, str):
                texts.append(described)
            if not _NESTED.isdisjoint(one):
                _gather(one, texts, levels - 1)
    nested = [schema[key] for key in ("items", "anyOf", "oneOf") if key in schema]
    for one in nested:
        for part in one if is_list(one) else (one,):
            if is_table(part):
                _gather(part, texts, levels - 1)


def choose_searchable(invokers: Sequence[Invoker], ensembles: Iterable[Ensemble]) -> frozenset[str]:
    """The exposed names of the tools that are not sent.

    Only tools that run here can be searchable. If more than ``search_over`` tools would be sent, every tool is that
    does not set ``tool_search = false``. Tools that may end a run are always sent.
    """
    here = [one for one in invokers if one.hosted == "here"]
    searchable = {one.exposed for one in here if one.policy.tool_search}
    lent = (one.surroundings.search_over for one in ensembles if one.surroundings is not None)
    over = min((number for number in lent if number is not None), default=None)
    if over is not None and len(invokers) - len(searchable) > over:
        searchable.update(one.exposed for one in here if one.policy.tool_search is None and not one.policy.terminal)
    return frozenset(searchable)
