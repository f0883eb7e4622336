"""Decides whether a call may run: rules first, then a confirmer. Without a confirmer, the call is denied.

``rules`` judges, ``requests`` has requests and answers, ``confirmers`` and ``terminal`` answer, ``presentation`` shows
a call to a person, ``grants`` has approvals that are valid for one call only,
``allowances`` those for later calls.
"""

from ripieno.interfaces import interface

_HOMES = {
    "Answer": "requests",
    "Approve": "requests",
    "AutonomousConfirmer": "confirmers",
    "CallbackConfirmer": "confirmers",
    "ConfirmationRequest": "requests",
    "Confirmer": "requests",
    "Defer": "requests",
    "DeferredConfirmer": "confirmers",
    "Deny": "requests",
    "Edit": "requests",
    "Given": "requests",
    "Grants": "grants",
    "Question": "requests",
    "RulesConfirmer": "confirmers",
    "TerminalConfirmer": "terminal",
}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES]  # noqa: PLE0604  all of them are strings
__getattr__ = interface(__name__, _HOMES)
