"""The journal: what happened in conversations, line by line, in a file that shows when it was changed.

``lines`` has the values and their digests, ``store`` the file, ``checking`` finds what was changed, ``fingerprints``
keeps secrets out, ``states`` says what became of each call, ``restoring`` makes conversations of lines again,
``summaries`` and ``statistics`` tell of many, ``anchors`` are kept elsewhere.
"""

from ripieno.storage.journal.journal import NAME, Journal
from ripieno.storage.journal.lines import DELETED, GENESIS, Anchor, Break, Line, says
from ripieno.storage.journal.restoration import InvocationState, Restored, Status
from ripieno.storage.journal.statistics import Statistics, Tally
from ripieno.storage.journal.summaries import Summary
from ripieno.storage.journal.verification import anchor_line, read_anchor

__all__ = [
    "DELETED",
    "GENESIS",
    "NAME",
    "Anchor",
    "Break",
    "InvocationState",
    "Journal",
    "Line",
    "Restored",
    "Statistics",
    "Status",
    "Summary",
    "Tally",
    "anchor_line",
    "read_anchor",
    "says",
]
