"""Turn after turn, until no invocation is left. Knows no vendor, no file and no screen.

``runs`` is how a run is used, ``driving`` what its task does, ``chronicles`` what is written down of it.
"""

from ripieno.conducting.driving import Watcher
from ripieno.conducting.runs import Run, conduct

__all__ = ["Run", "Watcher", "conduct"]
