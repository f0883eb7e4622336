"""The order of calls: what runs at once, what waits, and locks between conversations."""
