"""Decides whether a call may run: rules first, then a confirmer. Without a confirmer, the call is denied.

``rules`` judges, ``requests`` has requests and answers, ``confirmers`` and ``terminal`` answer, ``presentation`` shows
a call to a person, ``grants`` has approvals that are valid for one call only,
``allowances`` those for later calls.
"""

from ripieno.lazy.interfaces import interface

_HOMES = {
    "Answer": "approvals.requests",
    "Approve": "approvals.requests",
    "AutonomousConfirmer": "approvals.confirmers",
    "CallbackConfirmer": "approvals.confirmers",
    "ConfirmationRequest": "approvals.requests",
    "Confirmer": "approvals.requests",
    "Defer": "approvals.requests",
    "DeferredConfirmer": "approvals.confirmers",
    "Deny": "approvals.requests",
    "Edit": "approvals.requests",
    "Given": "approvals.requests",
    "Grants": "approvals.grants",
    "Question": "approvals.requests",
    "RulesConfirmer": "approvals.confirmers",
    "TerminalConfirmer": "approvals.terminal",
}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES]  # noqa: PLE0604  all of them are strings
__getattr__, __dir__ = interface(__name__, _HOMES)
