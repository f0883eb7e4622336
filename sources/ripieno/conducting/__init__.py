"""The loop: turn after turn, until no invocation is left. It knows no vendor, no file and no screen.

``run`` is what an application holds, ``driver`` does the work, ``chronicle`` records it, ``history`` is what a model
is shown of a long conversation, ``paused`` and ``resume`` continue later, ``observers`` show, log and trace.
"""

from ripieno.conducting.driver import Watcher
from ripieno.conducting.run import Run, conduct

__all__ = [
    "Run",
    "Watcher",
    "conduct",
]
