"""Code that several wire formats share."""
