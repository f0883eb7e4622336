"""Tool search: tools whose definitions are not sent, found by a search and called by name.

``ranking`` ranks texts against a query, ``catalogue`` has the searchable tools, ``tools`` the two tools that a model
sees in their place.
"""

from ripieno.ensembles.tool_search.catalogue import Catalogue, choose_searchable
from ripieno.ensembles.tool_search.tools import CALL, SEARCH, Helpers, make_helpers, resolve_call

__all__ = ["CALL", "SEARCH", "Catalogue", "Helpers", "choose_searchable", "make_helpers", "resolve_call"]
