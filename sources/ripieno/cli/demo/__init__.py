"""Commands that play scores: demo and rehearse."""
