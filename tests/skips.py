"""Things that a machine may lack, such as programs or permissions of the kernel: the only reasons to skip a test."""

import shutil
from typing import NoReturn

import pytest


def needs(program: str, *, there: bool | None = None) -> pytest.MarkDecorator:
    """Skips a test if there is no such program. ``there`` overrides the search for it."""
    found = shutil.which(program) is not None if there is None else there
    return pytest.mark.skipif(not found, reason=f"{program} is not here, or does not work")


def lacking(what: str) -> NoReturn:
    """Skips the test, and names what the machine lacks."""
    pytest.skip(what)
