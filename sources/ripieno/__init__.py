"""Ripieno lets a language model call every tool that a program declares.

::

    import ripieno

    async with ripieno.assemble("ripieno.toml") as assembly:
        run = assembly.conduct("What is in README.rst?", model="house/small-1")
        async for event in run:
            ripieno.show(event)
        conversation = await run

This is the public interface for applications. Plugins import ``ripieno.plugin``, tests ``ripieno.testing``. A name is
imported when it is first used, which keeps ``import ripieno`` fast; type checkers read ``__init__.pyi``.
"""

from ripieno.lazy.interfaces import interface

#: Each public name, and the module that defines it.
_HOMES = {
    "Approve": "approvals",
    "Assembly": "assembly",
    "AssistantCanister": "canisters",
    "Context": "ensembles",
    "Controls": "canisters",
    "Conversation": "canisters",
    "Deny": "approvals",
    "Edit": "approvals",
    "Ensemble": "ensembles",
    "Execution": "execution",
    "ImageContent": "canisters",
    "Limits": "canisters.controls",
    "Outcome": "ensembles",
    "ResultCanister": "canisters",
    "RipienoError": "exceptions",
    "Rules": "canisters.controls",
    "Run": "conducting",
    "SupervisorCanister": "canisters",
    "TextualContent": "canisters",
    "ToolFault": "exceptions",
    "UserCanister": "canisters",
    "assemble": "assembly",
    "conduct": "conducting",
    "prepare_ensembles": "assembly.shortcuts",
    "run": "assembly.shortcuts",
    "show": "conducting.observers.console",
    "validate_environment": "assembly.coverage.validation",
    "validate_for_task": "assembly.coverage.validation",
}

# pyright: reportUnsupportedDunderAll=false
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604  all of them are strings


_access, _ = interface(__name__, _HOMES)


def __getattr__(name: str) -> object:
    """A public name, imported now; ``__version__`` is the installed distribution's."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("ripieno")
    return _access(name)


def __dir__() -> list[str]:
    return sorted(__all__)
