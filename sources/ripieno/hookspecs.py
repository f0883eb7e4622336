"""What a plugin may provide. Every hook returns plain values and dotted paths, does no I/O, and changes nothing.

A dotted path is ``"package.module:NAME"``. What it names is imported when it is first needed. Signatures only ever
gain arguments; an implementation takes those that it wants.
"""

import pathlib
from collections.abc import Mapping, Sequence

import pluggy

#: The name of the entry-point group, and of the hooks' project.
PROJECT = "ripieno"

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def ripieno_data() -> Sequence[pathlib.Path]:  # type: ignore[empty-body]
    """Folders with ``ensembles/``, ``providers/`` and ``profiles/`` of TOML files."""


@hookspec
def ripieno_origins() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Origins: the name that ``origin = "…"`` says, and the dotted path of the ``Origin``."""


@hookspec
def ripieno_protocols() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Wire formats: the name that ``protocol = "…"`` says, and the dotted path of the ``Protocol``."""


@hookspec
def ripieno_sandboxes() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Sandboxes: the name that ``[sandbox] provider`` says, and the dotted path of what makes the ``Spawner``.

    It is called without arguments. The spawner starts confined programs only, and is given their ``Confinement``.
    """


@hookspec
def ripieno_commands() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Commands of ``ripieno``: the word that is typed, and the dotted path of the click command."""
