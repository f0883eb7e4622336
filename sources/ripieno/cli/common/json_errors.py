"""The error of a command as one JSON object, for ``--format json``."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import click

from ripieno import exceptions
from ripieno.exceptions import AssemblyFailure, ConfigurationInvalidity, Problem


def error_object(error: BaseException, code: int) -> Mapping[str, Any]:
    """``kind`` (its class), ``message``, ``hint``, ``file``, ``line`` (from 1), ``exit_code``, and ``problems``.

    What is not known is null. ``problems`` are all errors in files, each with these keys, a ``severity`` and a ``key``;
    then the rest is that of the first one.
    """
    problems = [_mapping(one) for one in _problems(error)]
    if problems:
        first = {name: problems[0][name] for name in ("message", "hint", "file", "line")}
    else:
        first = {"message": _message(error), "hint": _hint(error), "file": None, "line": None}
        if isinstance(error, OSError) and error.filename is not None:
            first["file"] = str(error.filename)
    kind = next((one for one in type(error).__mro__ if one.__module__ == exceptions.__name__), type(error))
    return {"kind": kind.__name__, **first, "exit_code": code, "problems": problems}


def _problems(error: BaseException) -> Iterator[Problem]:
    if isinstance(error, ConfigurationInvalidity):
        yield from error.problems
    elif isinstance(error, AssemblyFailure):
        for one in error.exceptions:
            yield from tuple(_problems(one)) or (Problem(message=_message(one), hint=_hint(one)),)


def _mapping(problem: Problem) -> dict[str, Any]:
    fields = dataclasses.asdict(problem)
    del fields["source"]
    return fields


def _hint(error: BaseException) -> str | None:
    if isinstance(error, click.UsageError):
        return f"For its options: {error.ctx.command_path} --help" if error.ctx is not None else None
    hint = getattr(error, "hint", None) or getattr(error, "suggestion", None)
    return hint if isinstance(hint, str) else None


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # The hint has its own key.
    return str(error).removesuffix(_hint(error) or "").rstrip()
