"""Tools that check code: syntax, linters, type checkers, tests."""
