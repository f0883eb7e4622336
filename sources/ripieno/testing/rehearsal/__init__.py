"""The rehearsal: a loopback server that plays scores over real wire formats, for real clients."""
