"""What a machine may lack, such as a program or a kernel's permission: the only reasons to leave a test out."""

import shutil
from typing import NoReturn

import pytest


def needs(program: str, *, there: bool | None = None) -> pytest.MarkDecorator:
    """Leaves a test out where there is no such program. ``there`` says so, where looking for it does not."""
    found = shutil.which(program) is not None if there is None else there
    return pytest.mark.skipif(not found, reason=f"{program} is not here, or does not work")


def lacking(what: str) -> NoReturn:
    """Leaves the test out, and says what the machine lacks for it."""
    pytest.skip(what)
