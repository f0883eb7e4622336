"""Stores in the database of a state folder."""

import pathlib

from ripieno.approvals.grant_stores import DatabaseStore
from ripieno.conducting.paused import PausedStore
from ripieno.storage.databases.opening import database_at
from ripieno.storage.journal import NAME


def paused_in(state: pathlib.Path) -> PausedStore:
    """The paused conversations of a state folder."""
    return PausedStore(database_at(state / NAME))


def grants_in(state: pathlib.Path) -> DatabaseStore:
    """The grants of a state folder."""
    return DatabaseStore(database_at(state / NAME))
