"""Imports modules and names, and compiles regular expressions, when they are first used: commands start faster."""
