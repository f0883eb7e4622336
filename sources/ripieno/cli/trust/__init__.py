"""Commands for trust, pins and sign-ins: trust, lock, login, logout."""
