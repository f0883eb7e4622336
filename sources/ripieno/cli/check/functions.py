"""Python functions that descriptors name: whether they can be imported, and which line of the user's code raised."""

import contextlib
import inspect
import pathlib
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ripieno.cli.common.findings import Subject, finding
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import InputError, Problem
from ripieno.origins.python import Reference, read_function

_OWN = pathlib.Path(__file__).parents[2]
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


def check_functions(subject: Subject) -> Iterable[Problem]:
    """What is wrong with the Python functions that ensembles name. Their modules are imported."""
    return resolve_functions(subject.descriptors)


def resolve_functions(descriptors: Iterable[EnsembleDescriptor], *, only: str | None = None) -> tuple[Problem, ...]:
    """The same of some ensembles, or of their invokers named ``only``, with lines.

    What modules print goes to standard error.
    """
    with contextlib.redirect_stdout(sys.stderr):
        return locate(problem for descriptor in descriptors for problem in _resolve(descriptor, only))


def _resolve(descriptor: EnsembleDescriptor, only: str | None) -> Iterator[Problem]:
    for invoker, body in descriptor.located():
        if invoker.invocable.origin != "python" or not invoker.enabled or only not in (None, invoker.name):
            continue
        path = (*body, "invocable")
        reference = read_function(descriptor, invoker, path, Problems(Source()))
        # A reference that cannot be read is the origin's to complain about.
        reason = None if reference is None else _try(reference)
        if reason is not None:
            where = path if "function" in invoker.invocable.settings else body or ("invoker",)
            message = f"the function of {invoker.name!r} cannot be used: {reason}"
            hint = "This file says which function it is: correct the file, or the function."
            yield finding(invoker.file, where, message, hint, "error")


def _try(reference: Reference) -> str | None:
    """Why a function cannot be used, or None. Whatever its module raises, an exit included, is a reason."""
    try:
        function = reference.load()
    except InputError as error:
        # Its own frames are ours alone: it is the reference that is wrong.
        own = place_of_error(error)
        return f"{error}{_file_of(reference) if own is None else f' It was raised at {own}.'}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        at = place_of_error(error)
        return f"importing {reference.place} raised {type(error).__name__}: {error}{f', at {at}' if at else ''}"
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        at = place_of_function(function)
        return f"it must take two arguments: (context, arguments){f', at {at}' if at else ''}"
    except ValueError:
        # Some functions written in C tell nobody what they take.
        return None
    return None


def _file_of(reference: Reference) -> str:
    """Which file that is, for a reference to a file that is there."""
    path = pathlib.Path(reference.folder or "", reference.place)
    return f" The file is {path}." if reference.place.startswith("./") and path.is_file() else ""
