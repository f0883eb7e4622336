"""The user's journal, which never contains the secrets of a configuration."""

from collections.abc import Mapping

from ripieno.assembly.configuration import LoadedConfiguration, Places
from ripieno.assembly.protection import withheld
from ripieno.storage.journal import NAME, Journal


def open_journal(loaded: LoadedConfiguration, environment: Mapping[str, str]) -> Journal:
    """The journal in the state folder; ``environment`` has the variables whose values may be secrets.

    Errors: ``InputError`` if the file cannot be used.
    """
    state = loaded.state or Places.of_user().state
    return Journal(state / NAME, secrets=withheld(loaded, environment))
