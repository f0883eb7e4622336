"""The journal, the conversation and the start time that the options of journal commands name."""

import contextlib
import datetime
import pathlib
import re
from collections.abc import Callable, Generator

import click

from ripieno.assembly.configuration import Places
from ripieno.cli.common.options import FILE, Command, Number
from ripieno.exceptions import InputError
from ripieno.storage.journal import NAME, Journal, Summary

_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def limits(what: str, *, default: int) -> Callable[[Command], Command]:
    """Adds ``--limit``, for the number of things that are listed."""
    text = f"The maximum number of {what}."
    return click.option("--limit", metavar="N", type=Number(min=1), default=default, show_default=True, help=text)


#: Adds ``--journal``; the command receives it as ``file``.
journals = click.option("--journal", "file", metavar="FILE", type=FILE, help="The journal file, instead of your own.")


def path_of(file: pathlib.Path | None) -> pathlib.Path:
    """The path of the named journal, or of the user's own."""
    return (file or Places.of_user().state / NAME).absolute()


@contextlib.contextmanager
def open_journal(file: pathlib.Path | None) -> Generator[Journal, None, None]:
    """An existing journal. Errors: ``InputError``."""
    path = path_of(file)
    if not path.exists():
        advice = " To read another one, give --journal FILE." if file is None else ""
        raise InputError(f"There is no journal at {path}.{advice}")
    with Journal(path) as journal:
        yield journal


def find_conversation(journal: Journal, beginning: str | None, *, conducted: bool = False) -> Summary:
    """The conversation whose identifier has this beginning, or the one with the latest entry.

    ``conducted``: without calls that no model requested.
    Errors: ``NameAbsence`` and ``InputError``.
    """
    if beginning is not None:
        return journal.find(beginning)
    latest = next((one for one in journal.conversations() if one.conducted or not conducted), None)
    if latest is None:
        lacking = "has no conversation of a model" if conducted else "is empty"
        raise InputError(f"The journal {journal.path} {lacking}.")
    return latest


def read_since(text: str) -> str:
    """The time of ``7d``, ``24h``, ``2026-01-31`` or an ISO 8601 time, as ISO 8601 in UTC. The default zone is UTC.

    Errors: ``click.UsageError``.
    """
    if span := _SPAN.fullmatch(text):
        ago = datetime.timedelta(**{_UNITS[span[2]]: int(span[1])})
        try:
            return _format(datetime.datetime.now(datetime.UTC) - ago)
        except OverflowError:
            return ""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is not a time. Write 30m, 24h, 7d, 2w, or a date such as 2026-01-31."
        ) from None
    return _format(time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC))


def _format(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).isoformat(timespec="microseconds")
