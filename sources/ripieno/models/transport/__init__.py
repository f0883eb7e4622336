"""The HTTP side of asking a model: endpoints, authentication, timeouts, errors, event streams."""
