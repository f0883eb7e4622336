"""Stored responses: what requests refer to, what is kept of answers, background runs, and their routes."""
