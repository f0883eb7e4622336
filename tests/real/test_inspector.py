"""The inspector's command line, a client that others wrote, against ``ripieno serve mcp``."""

import json
import pathlib
import subprocess
from typing import Any

from tests.support.command_line import COMMAND, PATIENCE, User
from tests.support.mcp_server_process import over_http


def inspect(node_servers: pathlib.Path, user: User, *arguments: str) -> Any:
    """What the inspector prints: the result, as JSON."""
    argv = [str(node_servers / "mcp-inspector"), "--cli", *arguments]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=user.workspace,
        env=user.environment(),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def look(node_servers: pathlib.Path, user: User, *target: str) -> None:
    """Lists the tools, and calls one well and badly."""
    (user.workspace / "score.txt").write_text("tutti\n")
    tools = {tool["name"]: tool for tool in inspect(node_servers, user, *target, "--method", "tools/list")["tools"]}
    assert {"list_directory", "read_file", "write_file"} <= set(tools)
    assert tools["read_file"]["inputSchema"]["properties"]["path"]["type"] == "string"
    assert tools["read_file"]["annotations"]["readOnlyHint"] is True
    call = (*target, "--method", "tools/call", "--tool-name", "read_file", "--tool-arg")
    good = inspect(node_servers, user, *call, "path=score.txt")
    assert good["content"] == [{"type": "text", "text": "tutti\n"}]
    assert good.get("isError", False) is False
    bad = inspect(node_servers, user, *call, "path=../score.txt")
    assert bad["isError"] is True
    write = (*target, "--method", "tools/call", "--tool-name", "write_file")
    denied = inspect(node_servers, user, *write, "--tool-arg", "path=a.txt", "content=x")
    assert denied["isError"] is True
    assert 'approve = ["io.write_file"]' in denied["content"][0]["text"]
    assert not (user.workspace / "a.txt").exists()


def test_over_standard_streams(user: User, node_servers: pathlib.Path) -> None:
    variables = user.environment()
    given = [f"{name}={variables[name]}" for name in ("RIPIENO_CONFIG_HOME", "RIPIENO_STATE_HOME", "PYTHONPATH")]
    # The inspector takes options of its own out of a command; a script of one word has none.
    script = user.workspace / "serve"
    words = " ".join(f"'{word}'" for word in ("env", *given, *COMMAND, "serve", "mcp"))
    script.write_text(f"#!/bin/sh\nexec {words}\n")
    script.chmod(0o755)
    look(node_servers, user, str(script))


def test_over_http(user: User, node_servers: pathlib.Path) -> None:
    with over_http(user) as (url, _):
        look(node_servers, user, url, "--transport", "http")
