"""The limits of a process."""

from ripieno.values import Value


class ProcessLimits(Value, kw_only=True):
    """Limits of one process. Sizes are in bytes, ``grace`` in seconds."""

    #: Bytes kept of each stream, half from its head and half from its tail.
    output_bytes: int = 64 * 1024
    #: Output of both streams together beyond which the process is ended.
    kill_after: int = 256 * 1024 * 1024
    #: Time between the request to end and the kill.
    grace: float = 2.0
