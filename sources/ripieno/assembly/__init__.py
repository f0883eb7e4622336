"""Builds everything from files and plugins: ensembles, their execution, and models.

``configuration`` loads the layers, ``selection`` chooses the ensembles, ``plugins`` finds plugins, ``trust`` and
``protection`` guard project files, ``coverage`` checks an environment, ``shortcuts`` serves scripts.
"""

from ripieno.assembly.assembly import Assembly, assemble

__all__ = ["Assembly", "assemble"]
