"""Runs that workers conduct for other programs: their queue, their events, and the workers that are alive."""
