"""Patterns of rules: over tools and the arguments of calls, read once, and never looser than they are written."""

from ripieno.patterns.calls import FORM, CallRules, Decision, Pattern

__all__ = ["FORM", "CallRules", "Decision", "Pattern"]
