"""``ripieno journal`` and ``ripieno stats``: the record of conversations."""
