"""Coverage: whether an environment has the tools that a task needs."""
