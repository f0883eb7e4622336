"""The line of user code that raised an error, or that runs."""

import pathlib
import sysconfig
import traceback
from collections.abc import Iterable
from types import FrameType

_OWN = pathlib.Path(__file__).parents[2]
_PACKAGES = tuple({pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")})
_STANDARD = tuple({pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})
#: Folders with code that the user did not write.
_LIBRARIES = (*_PACKAGES, *_STANDARD)


def place_of_error(error: BaseException) -> str | None:
    """The innermost ``file:line`` of the user's own code, or else the outermost of an installed package.

    None if only our code was running: then the name or the call of a function is wrong.
    """
    if isinstance(error, SyntaxError) and error.filename and pathlib.Path(error.filename).is_file():
        return f"{error.filename}:{error.lineno}"
    foreign = _foreign(traceback.extract_tb(error.__traceback__))
    users = [(path, line) for path, line in foreign if not _is_in(path, _LIBRARIES)]
    found = users[-1:] or [(path, line) for path, line in foreign if _is_in(path, _PACKAGES)][:1]
    return f"{found[0][0]}:{found[0][1]}" if found else None


def place_of_frame(frame: FrameType) -> str | None:
    """The innermost ``file:line`` on a stack that is neither ours nor of the standard library; None without one."""
    found = [(path, line) for path, line in _foreign(traceback.extract_stack(frame)) if not _is_in(path, _STANDARD)]
    return f"{found[-1][0]}:{found[-1][1]}" if found else None


def _foreign(frames: Iterable[traceback.FrameSummary]) -> list[tuple[pathlib.Path, int | None]]:
    """The files and lines of code that is not ours, from the outermost."""
    named = [(pathlib.Path(one.filename), one.lineno) for one in frames if not one.filename.startswith("<")]
    return [(path, line) for path, line in named if not path.is_relative_to(_OWN)]


def _is_in(path: pathlib.Path, folders: Iterable[pathlib.Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
