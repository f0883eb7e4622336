"""Starts programs, each confined to what it was given.

``processes`` starts them, ``supervision`` ends whatever they leave behind, ``confinement`` limits what they reach,
``tiers`` and ``detection`` find out which limits this system can enforce.
"""

from ripieno.sandbox.detection import DetectedTiers
from ripieno.sandbox.processes import Process, ProcessLimits, Spawner
from ripieno.sandbox.sandbox import Choice, Sandbox
from ripieno.sandbox.tiers import Confinement, RoutedSpawner, Tier

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
