"""Approving one call safely: what a person is shown of it, and a grant that is good for it alone.

``visibility`` and ``presenting`` make what a person is shown,
``previewing`` what a call would change, ``grants`` the tokens and ``stores`` the places that they are kept in.
"""

from ripieno.approvals.grants import LIFETIME, Binding, Grant, Grants, digest_definition, digest_rules
from ripieno.approvals.presenting import Presentation, present
from ripieno.approvals.previewing import Preview, foresee, show_change
from ripieno.approvals.stores import FileStore, GrantStore, Held, MemoryStore
from ripieno.approvals.visibility import cells, visible, wrap

__all__ = [
    "LIFETIME",
    "Binding",
    "FileStore",
    "Grant",
    "GrantStore",
    "Grants",
    "Held",
    "MemoryStore",
    "Presentation",
    "Preview",
    "cells",
    "digest_definition",
    "digest_rules",
    "foresee",
    "present",
    "show_change",
    "visible",
    "wrap",
]
