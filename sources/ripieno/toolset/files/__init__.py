"""Tools that read, write, edit, patch, list and manage files."""
