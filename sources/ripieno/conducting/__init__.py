"""The loop: turn after turn, until no invocation is left. It is independent of vendors, files and screens.

``run`` has the interface of applications, ``driver`` does the work, ``chronicle`` records it, ``history`` shortens long
conversations for a model, ``paused`` and ``resume`` continue later, ``observers`` show, log and trace.
"""

from ripieno.conducting.driver import Watcher
from ripieno.conducting.run import Run, conduct

__all__ = ["Run", "Watcher", "conduct"]
