"""Approving one call safely: patterns over it, what a person is shown of it, and a grant that is good for it alone.

``patterns`` reads rules over tools and arguments, ``visibility`` and ``presenting`` make what a person is shown,
``previewing`` what a call would change, ``grants`` the tokens and ``stores`` the places that they are kept in.
"""

from ripieno.approvals.grants import LIFETIME, Binding, Grant, Grants, digest_definition, digest_rules
from ripieno.approvals.patterns import CallRules, Decision, Pattern, PatternInvalidity
from ripieno.approvals.presenting import Claim, Presentation, present
from ripieno.approvals.previewing import Preview, foresee, show_change
from ripieno.approvals.stores import FileStore, GrantStore, Held, MemoryStore
from ripieno.approvals.visibility import cells, visible, wrap

__all__ = [
    "LIFETIME",
    "Binding",
    "CallRules",
    "Claim",
    "Decision",
    "FileStore",
    "Grant",
    "GrantStore",
    "Grants",
    "Held",
    "MemoryStore",
    "Pattern",
    "PatternInvalidity",
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
