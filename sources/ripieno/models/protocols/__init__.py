"""Wire formats: one package each, both directions, quirks listed in its docstring."""
