"""The rehearsal: a loopback server that plays scores over real wire formats, so that real clients talk to it."""
