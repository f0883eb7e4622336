"""Databases of the state: SQLite in a file, or PostgreSQL, behind one contract."""
