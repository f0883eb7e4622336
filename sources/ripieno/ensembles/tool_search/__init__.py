"""Deferred tools: what is not sent with every request, found by a search and called by its name.

``ranking`` ranks texts against a query, ``catalogue`` has the deferred tools and finds them, ``helpers`` are the two
tools that a model sees in their place, ``choosing`` says which tools are deferred.
"""

from ripieno.ensembles.tool_search.catalogue import Catalogue, choose_deferred
from ripieno.ensembles.tool_search.tools import CALL, SEARCH, Helpers, make_helpers, meant

__all__ = ["CALL", "SEARCH", "Catalogue", "Helpers", "choose_deferred", "make_helpers", "meant"]
