"""``ripieno check``: finds problems in descriptors and configuration."""
