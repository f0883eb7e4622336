"""Commands that use scores: demo and rehearse."""
