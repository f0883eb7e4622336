"""Cassettes: runs that are recorded into a file, and played again without a key, a network, a tool or a process.

``Recorder`` records, ``Replay`` replays. ``lines`` has the format of the file, ``redacting`` finds secrets that several
events share, ``bodies`` compares requests, ``values`` writes and reads what lines hold, ``taping`` and ``playing`` are
what stands around and in the place of a model, ``players`` keeps the recorded order, ``traffic`` writes down
messages of MCP servers.
"""

from ripieno.testing.cassettes.record import Recorder
from ripieno.testing.cassettes.replay import Replay

__all__ = [
    "Recorder",
    "Replay",
]
