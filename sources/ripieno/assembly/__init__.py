"""Builds everything from files and plugins: ensembles, their execution, and models.

``configuration`` loads the layers, ``plugins`` discovers, ``trust`` and ``protection`` guard project files,
``coverage`` checks an environment, ``shortcuts`` serve scripts.
"""

from ripieno.assembly.assembly import Assembly, assemble

__all__ = [
    "Assembly",
    "assemble",
]
