"""Modules of the standard library that are imported when they are first used.

The event loop takes a quarter of the time of a command that needs none. A module that is imported by such commands, and
has coroutines, imports it from here. Type checkers read ``modules.pyi``, which imports it.
"""

import importlib


class LazyModule:
    """Stands for a module, whose names it takes over one by one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        value: object = getattr(importlib.import_module(self._name), name)
        # The next access finds it without this method.
        setattr(self, name, value)
        return value


asyncio = LazyModule("asyncio")
difflib = LazyModule("difflib")
logging = LazyModule("logging")
