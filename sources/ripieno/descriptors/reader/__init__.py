"""Reads tables of declared keys: kinds of values, positions in the text, and problems with their lines."""
