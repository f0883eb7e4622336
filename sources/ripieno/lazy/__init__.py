"""What is imported or compiled at its first use, so that a command starts with what it needs only."""
