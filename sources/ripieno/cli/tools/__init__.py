"""Commands about tools: list, explain, invoke, new, schema."""
