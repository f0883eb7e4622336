"""What the commands about the journal share: where it is, which conversation is meant, and since when."""

import contextlib
import datetime
import pathlib
import re
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import click

from ripieno.assembly.configuration import Places
from ripieno.exceptions import InputError
from ripieno.storage.journal import NAME, Journal, Summary

Command = TypeVar("Command", bound=Callable[..., Any])
_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def journals(command: Command) -> Command:
    """Adds ``--journal``; the command gets it as ``file``."""
    return click.option(
        "--journal",
        "file",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=pathlib.Path),
        help="Another journal than your own.",
    )(command)


def place_of(file: pathlib.Path | None) -> pathlib.Path:
    """The journal that is meant: the named one, or the user's own."""
    return (file or Places.of_user().state / NAME).absolute()


@contextlib.contextmanager
def opened(file: pathlib.Path | None) -> Generator[Journal, None, None]:
    """A journal that is there. Errors: ``InputError``."""
    path = place_of(file)
    if not path.exists():
        raise InputError(f"There is no journal at {path}. Nothing was recorded there yet, or --journal FILE is needed.")
    with Journal(path) as journal:
        yield journal


def chosen(journal: Journal, beginning: str | None) -> Summary:
    """The conversation that is meant: by the beginning of its identifier, or the one that was written to last.

    Errors: ``NameAbsence`` and ``InputError``.
    """
    if beginning is not None:
        return journal.find(beginning)
    latest = next(journal.conversations(limit=1), None)
    if latest is None:
        raise InputError(f"The journal {journal.path} is empty.")
    return latest


def read_since(text: str) -> str:
    """``7d``, ``24h``, ``2026-01-31`` or a whole time, which is UTC unless it says so, as ISO 8601 in UTC.

    Errors: ``click.UsageError``.
    """
    if span := _SPAN.fullmatch(text):
        ago = datetime.timedelta(**{_UNITS[span[2]]: int(span[1])})
        try:
            return _written(datetime.datetime.now(datetime.UTC) - ago)
        except OverflowError:
            return ""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no time. Write 30m, 24h, 7d, 2w, or a date such as 2026-01-31.") from None
    return _written(time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC))


def _written(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).isoformat(timespec="microseconds")
