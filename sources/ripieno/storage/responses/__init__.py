"""Stored responses and conversations of a gateway's callers, encrypted with a key for each caller."""
