"""Facts about the house itself: what can be counted, and what is built from it."""
