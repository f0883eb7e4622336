"""What may run, who is asked, and what they may answer.

Rules decide first; a confirmer is asked about the rest. Nobody to ask means denied. ``judging`` has the rules,
``asking`` what is asked and answered, ``confirmers`` those who answer without a screen, ``terminal`` the person at one.
"""

from ripieno.confirmation.asking import (
    Answer,
    Approve,
    ConfirmationRequest,
    Confirmer,
    Defer,
    Deny,
    Edit,
    Given,
    Question,
    ask,
)
from ripieno.confirmation.confirmers import (
    AutonomousConfirmer,
    CallbackConfirmer,
    DeferredConfirmer,
    RulesConfirmer,
    ServingConfirmer,
)
from ripieno.confirmation.judging import Allowances, Outlook, Verdict, expect, judge
from ripieno.confirmation.terminal import TerminalConfirmer

__all__ = [
    "Allowances",
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
    "Outlook",
    "Question",
    "RulesConfirmer",
    "ServingConfirmer",
    "TerminalConfirmer",
    "Verdict",
    "ask",
    "expect",
    "judge",
]
