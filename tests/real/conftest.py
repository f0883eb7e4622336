"""The servers, installed, and a stage for each test to play them on."""

import pathlib

import pytest

from tests.real.installing import node_commands, python_commands
from tests.real.playing import Stage
from tests.support.command_line import User


@pytest.fixture(scope="session", autouse=True)
def authorities() -> None:
    """Trust those of the system: servers are installed from a network."""


@pytest.fixture(scope="session")
def python_servers() -> pathlib.Path:
    """The folder of the commands that pip installed."""
    return python_commands()


@pytest.fixture(scope="session")
def node_servers() -> pathlib.Path:
    """The folder of the commands that npm installed."""
    return node_commands()


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def user(stage: Stage) -> User:
    """The same user at a terminal."""
    return User.living(stage.folder)
