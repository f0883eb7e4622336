"""Checks that Python functions in descriptors can be imported."""

import contextlib
import inspect
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator

from ripieno.cli.common.findings import Subject, finding
from ripieno.cli.common.user_code import place_of_error
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.ensembles import UNREAD
from ripieno.descriptors.loading import locate
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import InputError, Problem
from ripieno.origins.python import Reference, locate_function, read_function


def check_functions(subject: Subject) -> Iterable[Problem]:
    """Errors in the Python functions of ensembles. Imports their modules."""
    return resolve_functions(subject.descriptors)


def resolve_functions(descriptors: Iterable[EnsembleDescriptor], *, only: str | None = None) -> tuple[Problem, ...]:
    """Errors, with lines, in the Python functions of these ensembles, or of their invokers named ``only``.

    Output of the modules goes to standard error.
    """
    with contextlib.redirect_stdout(sys.stderr):
        found = (problem for descriptor in descriptors for problem in _resolve(descriptor, only))
        # A module that several invokers use is reported once.
        return locate(dict.fromkeys(found))


def _resolve(descriptor: EnsembleDescriptor, only: str | None) -> Iterator[Problem]:
    for invoker, body in descriptor.located():
        if invoker.invocable.origin != "python" or not invoker.enabled or only not in (None, invoker.name):
            continue
        path = (*body, "invocable")
        reference = read_function(descriptor, invoker, path, Problems(Source()))
        # The origin reports a reference that cannot be read.
        if reference is None or reference.place == UNREAD:
            continue
        reason = _run(reference, reference.module)
        imported = reason is None
        reason = reason or _try(reference)
        if reason is not None:
            file, where, what = locate_function(descriptor, invoker, in_module=imported)
            hint = f"Fix the reference in this file, or the {'function' if imported else 'module'}."
            yield finding(file, where, f"{what} cannot be used: {reason}", hint, "error")


def _run(reference: Reference, load: Callable[[], object]) -> str | None:
    """The reason why a module or a function cannot be loaded, or None. Any exception, even an exit, is a reason."""
    try:
        load()
    except InputError as error:
        # If all frames are ours, the reference is wrong.
        own = place_of_error(error)
        return f"{error}{_file_of(reference) if own is None else f' It was raised at {own}.'}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        at = place_of_error(error)
        return f"importing {reference.place} raised {type(error).__name__}: {error}{f', at {at}' if at else ''}"
    return None


def _try(reference: Reference) -> str | None:
    """The reason why a function of an imported module cannot be used, or None."""
    reason = _run(reference, reference.load)
    if reason is not None:
        return reason
    function = reference.load()
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        # A function written in C has no code.
        code = getattr(inspect.unwrap(function), "__code__", None)
        at = None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
        return f"it must take two arguments: (context, arguments){f', at {at}' if at else ''}"
    except ValueError:
        # Some functions written in C have no signature.
        return None
    return None


def _file_of(reference: Reference) -> str:
    """The path of an existing file that a reference names, as a sentence."""
    path = pathlib.Path(reference.folder or "", reference.place)
    return f" The file is {path}." if reference.place.startswith("./") and path.is_file() else ""
