"""Cassettes: runs that are recorded into a file, and played again without a key, a network, a tool or a process.

``Recorder`` records, ``Replay`` plays. ``lines`` has the format of the file, ``redacting`` keeps secrets out of it,
``bodies`` compares requests, ``values`` writes and reads what lines hold, ``taping`` and ``playing`` are what stands
around and in the place of a model, ``players`` keeps the recorded order, ``traffic`` writes down what MCP servers
are told and say.
"""

from ripieno.testing.cassettes.record import Recorder
from ripieno.testing.cassettes.replay import Replay

__all__ = [
    "Recorder",
    "Replay",
]
