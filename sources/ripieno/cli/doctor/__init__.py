"""``ripieno doctor``: reports the state of everything that is configured."""
