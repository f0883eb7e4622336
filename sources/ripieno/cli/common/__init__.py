"""Helpers that several commands share: options, the group, output, observers."""
