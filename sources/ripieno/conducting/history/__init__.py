"""Strategies that shorten a long conversation for a model. The conversation itself never changes.

``view`` has the settings, and applies them in a run. ``strategies`` has those that need no model,
``summary`` the one that asks a model. ``cutting`` decides where a conversation is cut, ``shortening`` which results
become notes, by the tools' ``supersession``; both work incrementally, with ``increments``. ``shown`` has their results.
"""

from ripieno.conducting.history.shown import LEFT_OUT, HistoryStrategy, Shown, is_marker
from ripieno.conducting.history.strategies import Superseding, chain, drop_oldest, sliding_window, supersede
from ripieno.conducting.history.summary import summarize
from ripieno.conducting.history.supersession import Supersession
from ripieno.conducting.history.view import History, HistoryView

__all__ = [
    "LEFT_OUT",
    "History",
    "HistoryStrategy",
    "HistoryView",
    "Shown",
    "Superseding",
    "Supersession",
    "chain",
    "drop_oldest",
    "is_marker",
    "sliding_window",
    "summarize",
    "supersede",
]
