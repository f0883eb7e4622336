"""Tools of an MCP server that our own server passes on: what a client gets is what the server gave."""

import asyncio
import contextlib
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client

from ripieno.servers.mcp.server import EnsembleServer, create_server
from tests.servers.mcp.test_server import entered
from tests.support.command_line import PATIENCE
from tests.support.mcp_server_process import ERAS
from tests.support.mcp_servers.wrapped_results import app

WRAPPING = pathlib.Path(__file__).parents[2] / "support" / "mcp_servers" / "wrapped_results.py"
CONFIGURATION = {
    "ensembles": [
        {
            "ensemble": {"name": "passed", "prefix": ""},
            "connection": {"origin": "mcp", "command": [sys.executable, str(WRAPPING)]},
            "defaults": {"effect": "read"},
        }
    ]
}


@contextlib.asynccontextmanager
async def passing(folder: pathlib.Path) -> AsyncIterator[EnsembleServer]:
    async with asyncio.timeout(PATIENCE), entered(folder, CONFIGURATION) as assembly:
        yield create_server(assembly)


@pytest.mark.parametrize("mode", ERAS)
async def test_results_are_what_the_server_itself_gives(tmp_path: pathlib.Path, mode: Any) -> None:
    async with passing(tmp_path) as server, Client(server, mode=mode) as ours, Client(app, mode=mode) as theirs:
        for tool in ("greet", "count", "spell", "describe"):
            for name in ("Ada", "7", "[1]", ""):
                expected = await theirs.call_tool(tool, {"name": name})
                result = await ours.call_tool(tool, {"name": name})
                assert result.is_error is False, (tool, name, result.content)
                assert result.structured_content == expected.structured_content, (tool, name)
