"""Where programs run so that they reach no more than they were given: tiers, and what this system has of them.

``sandbox`` is what an application holds, ``confinement`` what one process gets, ``trials`` finds out which tiers hold,
``places`` knows what programs need, ``bubblewrap`` asks that program for
tier 2, ``routing`` hands programs to a plugin's spawner. What a confined process does itself
stands in ``ripieno.confining``.
"""

from ripieno.sandbox.confinement import Confinement, Tier
from ripieno.sandbox.routing import RoutedSpawner
from ripieno.sandbox.sandbox import Choice, Sandbox
from ripieno.sandbox.trials import Found

__all__ = ["Choice", "Confinement", "Found", "RoutedSpawner", "Sandbox", "Tier"]
