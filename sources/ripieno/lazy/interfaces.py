"""Interfaces of packages whose names are imported when they are first used.

Python imports a package before each of its modules. An interface that imports all of them makes every module as slow to
import as the whole package.
"""

import importlib
from collections.abc import Callable, Mapping


def interface(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    ``homes`` has its public names, each with the module in ours that defines it. Type checkers read the package's
    ``__init__.pyi``.
    """

    def access(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(package)
        value: object = getattr(importlib.import_module(f"ripieno.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    return access, lambda: sorted(homes)
