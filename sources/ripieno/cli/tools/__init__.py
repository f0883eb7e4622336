"""Commands for tools: list, explain, invoke, new, schema."""
