"""Fixtures of the MCP tests: surroundings, alerts, a pipe that processes hold open, and servers for several tests."""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator

import pytest

from ripieno.ensembles import Surroundings
from tests.origins.mcp.test_http import Web, web
from tests.support.live_processes import Living, living
from tests.support.toml_ensembles import Alerts, surround


@pytest.fixture
def alerts() -> Alerts:
    return Alerts()


@pytest.fixture
def surroundings(tmp_path: pathlib.Path, alerts: Alerts) -> Surroundings:
    return surround(tmp_path, alerts, secrets={"TOKEN": "a-secret-token"})


@pytest.fixture
def alive(tmp_path: pathlib.Path) -> Iterator[Living]:
    with living(tmp_path / "alive") as one:
        yield one


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Callable[[str], Web]]:
    """A server over HTTP for each era, started when it is first used. No test may change or end it."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda era: stack.enter_context(web("http", *(["legacy"] if era < "2026" else []))))
