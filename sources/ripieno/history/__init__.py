"""What a model is shown of a conversation, when all of it would be too much. The conversation itself never changes.

``exchanges`` says where a conversation may be parted, ``cutting`` when it is, ``shown`` has the values, ``strategies``
what needs nobody, ``summarizing`` what asks a model, and ``superseding`` what makes stale results short.
"""

from ripieno.history.shown import LEFT_OUT, HistoryStrategy, Shown, is_marker
from ripieno.history.strategies import chain, drop_oldest, sliding_window
from ripieno.history.summarizing import summarize
from ripieno.history.superseding import Superseding, Supersession, supersede

__all__ = [
    "LEFT_OUT",
    "HistoryStrategy",
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
