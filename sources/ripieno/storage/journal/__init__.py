"""The journal: a tamper-evident record of conversations, line by line.

``lines`` has the values and their digests, ``journal`` and ``database`` the file, ``verification`` finds alterations,
``restoration`` rebuilds conversations and the state of their calls, ``summaries`` and ``statistics`` aggregate lines.
"""

from ripieno.storage.journal.journal import NAME, Journal
from ripieno.storage.journal.lines import DELETED, GENESIS, Anchor, Break, Line
from ripieno.storage.journal.pages import Page
from ripieno.storage.journal.restoration import InvocationState, Restored, Status, Unfinished
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
    "Page",
    "Restored",
    "Statistics",
    "Status",
    "Summary",
    "Tally",
    "Unfinished",
    "anchor_line",
    "read_anchor",
]
