"""Files on disk: journal, pins, undo log, kept outputs, and the redaction of secrets."""
