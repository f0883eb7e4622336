"""``ripieno submit``, ``ripieno work`` and ``ripieno runs``: runs that workers conduct."""
