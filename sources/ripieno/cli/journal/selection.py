"""The journal, the conversation and the start time that the options of journal commands name."""

import contextlib
import datetime
import os
import pathlib
import re
from collections.abc import Callable, Generator, Sequence

import click

from ripieno.assembly.journal import journal_place, require_readable
from ripieno.cli.common.completion import completion
from ripieno.cli.common.main import say
from ripieno.cli.common.options import Command, Number, Settings
from ripieno.descriptors.loading.layers import ConfigurationPart, read_configuration_part
from ripieno.exceptions import ConfigurationInvalidity, InputError
from ripieno.jsonvalues import EMPTY
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import Journal, Summary
from ripieno.storage.places import Places

#: The end of the names of files with a journal.
_SUFFIX = ".sqlite3"
_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def limits(what: str, *, default: int) -> Callable[[Command], Command]:
    """Adds ``--limit``, for the number of things that are listed."""
    text = f"The maximum number of {what}."
    return click.option("--limit", metavar="N", type=Number(min=1), default=default, show_default=True, help=text)


#: Adds ``--journal``; the command receives it as ``file``.
journals = click.option(
    "--journal",
    "file",
    metavar="PLACE",
    help="The journal, instead of your own: a file, or the address of a database, such as '{env:JOURNAL_URL}'.",
)
#: Adds ``--owner``.
owners = click.option(
    "--owner",
    metavar="NAME",
    help="Only what is of this owner: a user of an application, or a client of a gateway. Yours has none: ''.",
)


def own_place() -> pathlib.Path | str:
    """The place of the user's journal: what ``--config`` says, or else their own configuration.

    Ensembles and providers are not read. Errors: ``InputError``, also for a file of ``--config`` that cannot be read.
    """
    urls: list[str | None] = [one.parts.get("journal", EMPTY).get("url") for one in _parts()]
    return journal_place(next(filter(None, reversed(urls)), None), Places.of_user().state, os.environ)


def _parts() -> list[ConfigurationPart]:
    """The user's own configuration, and the one that ``--config`` names. Errors: ``ConfigurationInvalidity``."""
    places = Places.of_user()
    named = click.get_current_context().ensure_object(Settings).config
    parts = [read_configuration_part(places.file, layer="user")] if places.file.is_file() else []
    require_readable(problem for part in parts for problem in part.problems)
    if named is not None:
        parts.append(read_configuration_part(named))
        if problems := [one for one in parts[-1].problems if one.severity == "error"]:
            raise ConfigurationInvalidity(problems)
    return parts


def _report_off() -> None:
    """Reports that the configuration records nothing: what is read was recorded with another one, or earlier."""
    tables = [(one.file, one.parts.get("journal", EMPTY)) for one in _parts()]
    off = [(file, table["enabled"]) for file, table in tables if "enabled" in table]
    if off and not off[-1][1]:
        say(f"! The journal is off: {off[-1][0]} has enabled = false under [journal]. Nothing newer is recorded.")


def place_of(text: str | None) -> pathlib.Path | str:
    """The place that an option names, or the user's own. Errors: ``InputError``."""
    if text is None:
        return own_place()
    if text.startswith("{env:") or "://" in text:
        return journal_place(text, pathlib.Path(), os.environ)
    return pathlib.Path(text).absolute()


def new_place(text: str) -> pathlib.Path | str:
    """The place that a copy is made at. Errors: ``InputError``, also for a name that may be a mistyped address."""
    place = place_of(text)
    if isinstance(place, pathlib.Path):
        if not text.startswith(("/", "./", "../")) and place.suffix != _SUFFIX:
            # It is not repeated: it may have a password.
            raise InputError(
                f"PLACE is neither an address nor a file whose name ends in {_SUFFIX}. An address in a variable: "
                "'{env:JOURNAL_URL}'. A file with another name: ./FILE"
            )
        if not place.parent.is_dir():
            raise InputError(f"There is no folder {place.parent}. Create it, or name a file in another one.")
    return place


def name_of(text: str | None) -> str:
    """The name of the journal of an option, in messages: a path, or an address without a password."""
    return database_at(place_of(text)).name


def has_journal(text: str | None) -> bool:
    """Whether there is a journal to read: a user may have none yet. Errors: ``InputError``."""
    known = text is not None or isinstance(place := own_place(), str) or place.exists()
    if not known:
        _report_off()
    return known


@contextlib.contextmanager
def open_journal(text: str | None) -> Generator[Journal, None, None]:
    """An existing journal, with a warning if the user's own is off. Errors: ``InputError``."""
    if text is None:
        _report_off()
    with _opened(text) as journal:
        yield journal


@contextlib.contextmanager
def _opened(text: str | None) -> Generator[Journal, None, None]:
    place = place_of(text)
    if isinstance(place, pathlib.Path) and not place.exists():
        advice = " To read another one, give --journal FILE." if text is None else ""
        raise InputError(f"There is no journal at {place}.{advice}")
    with Journal(place) as journal:
        yield journal


def find_conversation(
    journal: Journal, beginning: str | None, owner: str | None, *, conducted: bool = False
) -> Summary:
    """The conversation whose identifier has this beginning, or the one with the latest entry that is not deleted.

    ``conducted``: without calls that no model requested.
    Errors: ``NameAbsence`` and ``InputError``.
    """
    if beginning is not None:
        return journal.find(beginning, owner=owner)
    kept = (one for one in journal.conversations(owner=owner) if not one.deleted)
    latest = next((one for one in kept if one.conducted or not conducted), None)
    if latest is None:
        lacking = "has no conversation of a model" if conducted else "is empty"
        raise InputError(f"The journal {journal.name} {lacking}.")
    return latest


def find_named(journal: Journal, beginning: str | None, owner: str | None) -> tuple[str | None, str | None]:
    """The identifier and the owner of a conversation, as filters; without one, the owner alone. Errors: as above."""
    if beginning is None:
        return None, owner
    found = find_conversation(journal, beginning, owner)
    return found.identifier, found.owner


def _conversations(context: click.Context) -> Sequence[str]:
    with context.scope(), _opened(context.params.get("file")) as journal:
        return [one.identifier for one in journal.conversations(limit=50) if not one.deleted]


#: Completes the latest conversations.
complete_conversation = completion(_conversations)


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
