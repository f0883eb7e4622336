"""The undo journal: what tools changed in a workspace, with what was there before.

``records`` has the values, ``store`` the files that they are kept in. Who reads and restores files stands above.
"""

from ripieno.undo.records import NOWHERE, Cause, Entry, Kind, State, Step
from ripieno.undo.store import KEEP_BYTES, Journal, digest

__all__ = ["KEEP_BYTES", "NOWHERE", "Cause", "Entry", "Journal", "Kind", "State", "Step", "digest"]
