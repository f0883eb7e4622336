"""Builds everything from files and plugins: ensembles, their execution, and models.

``configuration`` loads the layers, ``selection`` chooses the ensembles, ``ensembles`` connects them, ``plugins`` finds
plugins, ``trust`` and ``protection`` guard project files, ``coverage`` checks an environment, ``submissions`` gives
runs to workers, ``shortcuts`` has ``assemble`` and serves scripts.
"""

from ripieno.lazy.interfaces import interface

_HOMES = {"Assembly": "assembly.assembly", "assemble": "assembly.shortcuts"}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES]  # noqa: PLE0604  all of them are strings
__getattr__, __dir__ = interface(__name__, _HOMES)
