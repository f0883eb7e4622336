"""Patterns of rules: over tools and the arguments of calls, read once, and never looser than they are written."""

from ripieno.descriptors.rules.call_patterns import FORM, CallRules, Decision, Pattern

__all__ = ["FORM", "CallRules", "Decision", "Pattern"]
