"""The line of user code that raised an error."""

import pathlib
import sysconfig
import traceback
from collections.abc import Iterable

_OWN = pathlib.Path(__file__).parents[2]
_PACKAGES = tuple({pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")})
#: Folders with code that the user did not write.
_LIBRARIES = (*_PACKAGES, *{pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})


def place_of_error(error: BaseException) -> str | None:
    """The innermost ``file:line`` of the user's own code, or else the outermost of an installed package.

    None if only our code was running: then the name or the call of a function is wrong.
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
