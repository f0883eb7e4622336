"""Starting programs, each confined to what it was granted.

``processes`` starts them, ``local_processes`` those of this machine, ``supervision`` ends all that they leave running,
``confinement`` limits their access, ``tiers`` and ``detection`` determine which limits this system can enforce.
"""

from ripieno.sandbox.detection import DetectedTiers
from ripieno.sandbox.process_limits import ProcessLimits
from ripieno.sandbox.processes import Process, RoutedSpawner, Spawner
from ripieno.sandbox.sandbox import Choice, Sandbox
from ripieno.sandbox.tiers import Confinement, Tier

__all__ = [
    "Choice",
    "Confinement",
    "DetectedTiers",
    "Process",
    "ProcessLimits",
    "RoutedSpawner",
    "Sandbox",
    "Spawner",
    "Tier",
]
