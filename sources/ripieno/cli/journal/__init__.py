"""``ripieno journal`` and ``ripieno stats``: what conversations recorded."""
