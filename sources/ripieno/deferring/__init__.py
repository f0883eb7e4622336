"""Deferred tools: what is not sent with every request, found by a search and called by its name.

``ranking`` ranks texts against a query, ``catalogue`` has the deferred tools and finds them, ``helpers`` are the two
tools that a model sees in their place, ``choosing`` says which tools are deferred.
"""

from ripieno.deferring.catalogue import Catalogue
from ripieno.deferring.choosing import choose_deferred
from ripieno.deferring.helpers import CALL, SEARCH, Helpers, make_helpers, meant

__all__ = ["CALL", "SEARCH", "Catalogue", "Helpers", "choose_deferred", "make_helpers", "meant"]
