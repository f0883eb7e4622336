"""Where in somebody's own Python an error came from: the file and line that a person should look at."""

import inspect
import pathlib
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from typing import Any

_OWN = pathlib.Path(__file__).parents[1]
_PACKAGES = tuple({pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")})
#: Where code stands that its user did not write.
_LIBRARIES = (*_PACKAGES, *{pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})


def place_of_error(error: BaseException) -> str | None:
    """The innermost ``file:line`` of the user's own code; without any, the outermost of an installed package.

    None when no code but ours was running: then the error is about how a function is named or called.
    """
    if isinstance(error, SyntaxError) and error.filename and pathlib.Path(error.filename).is_file():
        return f"{error.filename}:{error.lineno}"
    frames = [
        (pathlib.Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    foreign = [(path, line) for path, line in frames if not path.is_relative_to(_OWN)]
    users = [(path, line) for path, line in foreign if not _is_in(path, _LIBRARIES)]
    found = users[-1:] or [(path, line) for path, line in foreign if _is_in(path, _PACKAGES)][:1]
    return f"{found[0][0]}:{found[0][1]}" if found else None


def _is_in(path: pathlib.Path, folders: Iterable[pathlib.Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def place_of_function(function: Callable[..., Any]) -> str | None:
    """The ``file:line`` at which a Python function is defined; None for what is written in C."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
