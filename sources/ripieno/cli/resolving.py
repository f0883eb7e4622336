"""Resolves the Python functions that descriptors name: imports them, which only ``check`` does before a call."""

import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator

from ripieno.descriptors import EnsembleDescriptor, Path, Problems, Source
from ripieno.exceptions import InputError, Problem
from ripieno.loading import locate
from ripieno.origins.python import Reference, read_function


def resolve_functions(descriptors: Iterable[EnsembleDescriptor]) -> tuple[Problem, ...]:
    """What is wrong with the functions of these ensembles, with lines. What modules print goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        return locate(problem for descriptor in descriptors for problem in _resolve(descriptor))


def _resolve(descriptor: EnsembleDescriptor) -> Iterator[Problem]:
    for index, invoker in enumerate(descriptor.invokers):
        if invoker.invocable.origin != "python" or not invoker.enabled:
            continue
        inline = invoker.file == descriptor.file
        path: Path = ("invokers", index, "invocable") if inline else ("invocable",)
        problems = Problems(Source(file=invoker.file))
        reference = read_function(descriptor, invoker, path, problems)
        # A reference that cannot be read is the origin's to complain about.
        reason = None if reference is None else _try(reference)
        if reason is not None:
            where = path if "function" in invoker.invocable.settings else path[:-1] or ("invoker",)
            problems = Problems(Source(file=invoker.file))
            problems.add(where, f"the function of {invoker.name!r} cannot be used: {reason}")
            yield from problems.finished()


def _try(reference: Reference) -> str | None:
    """Why a function cannot be used, or None. Whatever its module raises, an exit included, is a reason."""
    try:
        function = reference.load()
    except InputError as error:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"importing {reference.place} raised {type(error).__name__}: {error}"
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        return "it must take two arguments: (context, arguments)"
    except ValueError:
        # Some functions written in C tell nobody what they take.
        return None
    return None
