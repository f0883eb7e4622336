"""Builds everything from files and plugins: ensembles, their execution, and models.

``configuration`` loads the layers, ``selection`` chooses the ensembles, ``plugins`` finds plugins, ``trust`` and
``protection`` guard project files, ``coverage`` checks an environment, ``submissions`` gives runs to workers,
``shortcuts`` has ``assemble`` and serves scripts.
"""

from ripieno.assembly.assembly import Assembly
from ripieno.assembly.shortcuts import assemble

__all__ = ["Assembly", "assemble"]
