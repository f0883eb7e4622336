"""Tools for git repositories."""
