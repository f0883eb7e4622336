"""Hostile servers of the Model Context Protocol, in plain standard library, each behaving badly in one way."""
