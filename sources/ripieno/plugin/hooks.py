"""The hooks of plugins. ``ripieno.plugin`` has the rest of what a plugin imports.

Every hook returns plain values and dotted paths, does no I/O, and changes nothing. A dotted path is
``"package.module:NAME"``; it is imported when it is first needed. Signatures only gain arguments; an implementation
takes those that it needs.
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
    """Origins: the name in ``origin = "…"``, and the dotted path of the ``Origin``."""


@hookspec
def ripieno_transports() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Transports of MCP servers: the name in ``transport = "…"``, and the dotted path of the ``McpTransport``."""


@hookspec
def ripieno_protocols() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Wire formats: the name in ``protocol = "…"``, and the dotted path of the ``Protocol``."""


@hookspec
def ripieno_sandboxes() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Sandboxes: the name in ``[sandbox] provider``, and the dotted path of a function that returns the ``Spawner``.

    It has no arguments. The spawner gets a ``Confinement`` with each program, and starts only confined programs.
    """


@hookspec
def ripieno_commands() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Commands of ``ripieno``: the name, and the dotted path of the click command."""


#: Marks a function of a plugin as an implementation of a hook.
hookimpl = pluggy.HookimplMarker(PROJECT)
