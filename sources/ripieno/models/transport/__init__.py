"""HTTP transport to model endpoints: authentication, timeouts, errors, event streams."""
