"""Patterns of rules over tools and the arguments of calls. In doubt, the stricter reading applies."""

from ripieno.descriptors.rules.call_patterns import FORM, CallRules, Decision, Pattern

__all__ = ["FORM", "CallRules", "Decision", "Pattern"]
