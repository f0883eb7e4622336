"""The HTTP base of all servers: sockets, keys, bodies, workers."""
