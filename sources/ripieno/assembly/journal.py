"""The user's journal and its database, which never contain the secrets of a configuration."""

import pathlib
from collections.abc import Iterable, Mapping

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.protection import withheld
from ripieno.descriptors.templates import Template
from ripieno.exceptions import ConfigurationInvalidity, InputError, Problem
from ripieno.storage.databases.contract import Database
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import NAME, Journal
from ripieno.storage.places import Places


def journal_place(url: str | None, state: pathlib.Path, environment: Mapping[str, str]) -> pathlib.Path | str:
    """The place of the journal: the file in the state folder, or the address that ``[journal] url`` has.

    Errors: ``InputError`` if one of its variables is not set.
    """
    if url is None:
        return state / NAME
    template = Template.parse(url, variables=True)
    lacking = [name for name in template.variables if not environment.get(name)]
    if lacking:
        raise InputError(
            f"The address of the journal needs the variable {lacking[0]}, which is not set. "
            f"Set it: export {lacking[0]}=..."
        )
    return template.header({}, environment)


def place_of_journal(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> pathlib.Path | str:
    """The place of the journal of a configuration.

    Errors: ``InputError``, also if the configuration cannot be read where it names the place.
    """
    # A project's configuration names no journal.
    require_readable(problem for part in loaded.parts if part.layer != "project" for problem in part.problems)
    return journal_place(loaded.configuration.journal_url, loaded.state or Places.of_user().state, environment)


def require_readable(problems: Iterable[Problem]) -> None:
    """Errors: ``ConfigurationInvalidity`` with those problems that may hide the place of the journal.

    Without it, another journal would be taken for the one that is meant.
    """
    errors = (one for one in problems if one.severity == "error")
    if hiding := [one for one in errors if one.key is None or one.key.partition(".")[0] == "journal"]:
        raise ConfigurationInvalidity(hiding)


def open_database(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Database:
    """The database of the journal, of paused calls and of approvals. It is opened at the first use."""
    return database_at(place_of_journal(loaded, environment))


def open_journal(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Journal:
    """The journal; ``environment`` has the variables whose values may be secrets.

    Errors: ``InputError`` if it cannot be used.
    """
    key = (loaded.state or Places.of_user().state) / f"{NAME}.key"
    return Journal(place_of_journal(loaded, environment), secrets=withheld(loaded, environment), key=key)
