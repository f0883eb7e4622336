"""A workspace with files and links of every kind, and something outside that nobody may reach."""

import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest

from ripieno.toolset.workspace.workspace import Workspace
from tests.toolset.bundled_tools import Tools, tools_of
from tests.toolset.furnished_workspace import CANARY, furnish


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_bytes(CANARY)
    (folder / "a").mkdir()
    (folder / "a" / "b").write_bytes(CANARY)
    return folder


@pytest.fixture
def root(tmp_path: pathlib.Path, outside: pathlib.Path) -> pathlib.Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    furnish(workspace, outside)
    return workspace


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty one."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def tools(workspace: pathlib.Path, request: pytest.FixtureRequest) -> AsyncIterator[Tools]:
    """The ensemble that a module of tests names, for its workspace."""
    async with tools_of(request.module.ENSEMBLE, workspace) as one:
        yield one


@pytest.fixture
def files(root: pathlib.Path) -> Iterator[Workspace]:
    with Workspace(root) as one:
        yield one
