"""Tools that search file names and text, with ripgrep or without it."""
