"""Decides whether a call may run: rules first, then a confirmer. Without a confirmer, the call is denied.

``rules`` judges, ``requests`` has requests and answers, ``confirmers`` and ``terminal`` answer, ``presentation`` shows
a call to a person, ``grants`` has approvals that are valid for one call only,
``allowances`` those for later calls.
"""

from ripieno.approvals.confirmers import AutonomousConfirmer, CallbackConfirmer, DeferredConfirmer, RulesConfirmer
from ripieno.approvals.grants import Grants
from ripieno.approvals.requests import (
    Answer,
    Approve,
    ConfirmationRequest,
    Confirmer,
    Defer,
    Deny,
    Edit,
    Given,
    Question,
)
from ripieno.approvals.terminal import TerminalConfirmer

__all__ = [
    "Answer",
    "Approve",
    "AutonomousConfirmer",
    "CallbackConfirmer",
    "ConfirmationRequest",
    "Confirmer",
    "Defer",
    "DeferredConfirmer",
    "Deny",
    "Edit",
    "Given",
    "Grants",
    "Question",
    "RulesConfirmer",
    "TerminalConfirmer",
]
