"""The journal: what happened in conversations, line by line, in a file that shows when it was changed.

``lines`` has the values and their digests, ``store`` the file, ``checking`` finds what was changed, ``fingerprints``
keeps secrets out, ``states`` says what became of each call.
"""

from ripieno.journal.lines import GENESIS, Anchor, Break, Line
from ripieno.journal.states import InvocationState, Status
from ripieno.journal.store import Journal

__all__ = ["GENESIS", "Anchor", "Break", "InvocationState", "Journal", "Line", "Status"]
