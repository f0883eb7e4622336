"""The database at a path or an address."""

import pathlib

from ripieno.descriptors.journal import address_fault, refuse_address
from ripieno.exceptions import InputError
from ripieno.storage.databases.contract import Database


def database_at(place: pathlib.Path | str) -> Database:
    """The database in a file, or at the address of a PostgreSQL server. Errors: ``InputError``."""
    if isinstance(place, pathlib.Path):
        from ripieno.storage.databases.sqlite import SqliteDatabase

        return SqliteDatabase(place)
    if fault := address_fault(place):
        raise refuse_address(fault)
    try:
        from ripieno.storage.databases.postgresql import PostgresqlDatabase
    except ImportError as error:
        raise InputError(
            f"A journal in PostgreSQL needs psycopg ({error}). Install it: pip install 'ripieno[postgres]'"
        ) from None
    return PostgresqlDatabase(place)
