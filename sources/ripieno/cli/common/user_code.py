"""The line of user code that raised an error, or that runs."""

import pathlib
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TypeAlias

_OWN = pathlib.Path(__file__).parents[2]
_PACKAGES = tuple({pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")})
#: Folders with code that the user did not write.
_LIBRARIES = (*_PACKAGES, *{pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})

_Place: TypeAlias = tuple[pathlib.Path, int | None]


def place_of_error(error: BaseException) -> str | None:
    """The innermost ``file:line`` of the user's own code, or else the outermost of an installed package.

    None if only our code was running: then the name or the call of a function is wrong.
    """
    if isinstance(error, SyntaxError) and error.filename and pathlib.Path(error.filename).is_file():
        return f"{error.filename}:{error.lineno}"
    frames = _files(traceback.extract_tb(error.__traceback__))
    return _place_in([(path, line) for path, line in frames if not path.is_relative_to(_OWN)])


def place_of_frame(frame: FrameType) -> str | None:
    """As ``place_of_error``, for code that our own has called and that runs now."""
    called: list[_Place] = []
    for path, line in _files(traceback.extract_stack(frame)):
        called = [] if path.is_relative_to(_OWN) else [*called, (path, line)]
    return _place_in(called)


def _files(frames: Iterable[traceback.FrameSummary]) -> list[_Place]:
    """The files and lines, from the outermost."""
    return [(pathlib.Path(one.filename), one.lineno) for one in frames if not one.filename.startswith("<")]


def _place_in(foreign: Sequence[_Place]) -> str | None:
    users = [(path, line) for path, line in foreign if not _is_in(path, _LIBRARIES)]
    found = users[-1:] or [(path, line) for path, line in foreign if _is_in(path, _PACKAGES)][:1]
    return f"{found[0][0]}:{found[0][1]}" if found else None


def _is_in(path: pathlib.Path, folders: Iterable[pathlib.Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
