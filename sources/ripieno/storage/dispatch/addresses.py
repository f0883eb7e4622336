"""The place of the dispatch engine's tables: in a file, or in a schema beside that of the journal."""

import contextlib
import pathlib
import sqlite3

import sqlalchemy

from ripieno.storage.databases.addresses import read_address
from ripieno.storage.databases.postgresql import NOTICED
from ripieno.storage.files import created, make_private


def address_of(place: pathlib.Path | str) -> tuple[str, str]:
    """The address for SQLAlchemy of a file, or of the database of a journal; and the schema there.

    Errors: ``InputError`` for an address that cannot be read.
    """
    return (f"sqlite:///{place.absolute()}", "dbos") if isinstance(place, pathlib.Path) else _beside(place)


def create(place: pathlib.Path | str) -> None:
    """Creates a file with mode 0600 and a write-ahead log, which makes commits faster (measured: 3.1 to 2.6 ms)."""
    if isinstance(place, pathlib.Path) and not place.exists():
        make_private(place.parent)
        with created(place) as temporary, contextlib.closing(sqlite3.connect(temporary)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")


def _beside(url: str) -> tuple[str, str]:
    """The address for SQLAlchemy, and the schema beside that of the journal."""
    own = {"application_name": "ripieno", **NOTICED}
    given = {name: str(value) for name, value in {**own, **read_address(url)}.items() if value is not None}
    options = given.get("options", "")
    _, found, rest = options.partition("search_path=")
    schema = rest.split()[0].split(",")[0] if found else "ripieno"
    host = given.pop("host", None)
    local = host is not None and host.startswith(("/", "@"))
    address = sqlalchemy.URL.create(
        "postgresql",
        username=given.pop("user", None),
        password=given.pop("password", None),
        host=None if local else host,
        port=int(given.pop("port")) if given.get("port", "").isdigit() else None,
        database=given.pop("dbname", None) or "postgres",
        query={**given, **({"host": host} if local and host else {})},
    )
    return address.render_as_string(hide_password=False), f"{schema}_dispatch"
