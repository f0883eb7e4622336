"""Commands about consent: trust, lock, login, logout."""
