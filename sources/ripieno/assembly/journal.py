"""The user's journal and its database, which never contain the secrets of a configuration."""

import pathlib
from collections.abc import Mapping

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.protection import withheld
from ripieno.descriptors.templates import Template
from ripieno.exceptions import InputError
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


def open_database(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Database:
    """The database of the journal, of paused calls and of approvals. It is opened at the first use."""
    state = loaded.state or Places.of_user().state
    return database_at(journal_place(loaded.configuration.journal_url, state, environment))


def open_journal(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Journal:
    """The journal; ``environment`` has the variables whose values may be secrets.

    Errors: ``InputError`` if it cannot be used.
    """
    state = loaded.state or Places.of_user().state
    place = journal_place(loaded.configuration.journal_url, state, environment)
    return Journal(place, secrets=withheld(loaded, environment), key=state / f"{NAME}.key")
