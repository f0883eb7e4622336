"""The C library, opened at its first use: a program that only lists tools must open no library."""

import functools
from typing import Any


@functools.cache
def ctypes() -> Any:
    """The module, whose import opens a library."""
    import ctypes as module

    return module


@functools.cache
def library() -> Any:
    """The functions of the C library, without argument types."""
    return ctypes().CDLL(None, use_errno=True)


def error_number() -> int:
    """The error number of the last function that failed, in this thread."""
    number: int = ctypes().get_errno()
    return number
