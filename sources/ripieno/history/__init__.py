"""What a model is shown of a conversation, when all of it would be too much. The conversation itself never changes.

``settings`` says what is wanted, ``showing`` is at work in a run. ``strategies`` cut and need nobody, ``summarizing``
asks a model, and ``superseding`` makes stale results short, as ``supersession`` has it of the tools. ``exchanges`` says
where a conversation may be parted, ``cutting`` and ``shortening`` when it is; both go along with it, as ``following``
has it.
"""

from ripieno.history.settings import History
from ripieno.history.showing import Showing
from ripieno.history.shown import LEFT_OUT, HistoryStrategy, Shown, is_marker
from ripieno.history.strategies import chain, drop_oldest, sliding_window
from ripieno.history.summarizing import summarize
from ripieno.history.superseding import Superseding, supersede
from ripieno.history.supersession import Supersession

__all__ = [
    "LEFT_OUT",
    "History",
    "HistoryStrategy",
    "Showing",
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
