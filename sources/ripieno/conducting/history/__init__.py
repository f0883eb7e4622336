"""What a model is shown of a conversation, when all of it would be too much. The conversation itself never changes.

``settings`` says what is wanted, ``showing`` is at work in a run. ``strategies`` cut and need nobody, ``summarizing``
asks a model, and ``superseding`` makes stale results short, as ``supersession`` has it of the tools. ``exchanges`` says
where a conversation may be parted, ``cutting`` and ``shortening`` when it is; both go along with it, as ``following``
has it.
"""

from ripieno.conducting.history.settings import History
from ripieno.conducting.history.shown import LEFT_OUT, HistoryStrategy, Shown, is_marker
from ripieno.conducting.history.strategies import Superseding, chain, drop_oldest, sliding_window, supersede
from ripieno.conducting.history.summary import summarize
from ripieno.conducting.history.supersession import Supersession
from ripieno.conducting.history.view import HistoryView

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
