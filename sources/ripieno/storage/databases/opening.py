"""The database at a path or an address."""

import pathlib

from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database

_SCHEMES = ("postgresql://", "postgres://")


def database_at(place: pathlib.Path | str) -> Database:
    """The database in a file, or at the address of a PostgreSQL server. Errors: ``InputError``."""
    if isinstance(place, pathlib.Path):
        from ripieno.storage.databases.sqlite import SqliteDatabase

        return SqliteDatabase(place)
    if not place.startswith(_SCHEMES):
        raise InputError("The address of a journal begins with postgresql://. A file is given as a pathlib.Path.")
    try:
        from ripieno.storage.databases.postgresql import PostgresqlDatabase
    except ImportError as error:
        raise InputError(
            f"A journal in PostgreSQL needs psycopg ({error}). Install it: pip install 'ripieno[postgres]'"
        ) from None
    return PostgresqlDatabase(place)
