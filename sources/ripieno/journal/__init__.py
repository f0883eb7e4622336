"""The journal: what happened in conversations, line by line, in a file that shows when it was changed.

``lines`` has the values and their digests, ``store`` the file, ``checking`` finds what was changed, ``fingerprints``
keeps secrets out, ``states`` says what became of each call, ``restoring`` makes conversations of lines again,
``summaries`` and ``statistics`` tell of many, ``anchors`` are kept elsewhere.
"""

from ripieno.journal.anchors import anchor_line, read_anchor
from ripieno.journal.lines import DELETED, GENESIS, Anchor, Break, Line, says
from ripieno.journal.restoring import Restored
from ripieno.journal.states import InvocationState, Status
from ripieno.journal.statistics import Statistics, Tally
from ripieno.journal.store import NAME, Journal
from ripieno.journal.summaries import Summary

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
