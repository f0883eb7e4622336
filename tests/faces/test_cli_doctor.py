"""``ripieno doctor`` on connections: what carries them, how old they speak, and what a server complained about."""

import json
import sys
from collections.abc import Callable

from tests.faces.commanding import User
from tests.faces.conftest import Done
from tests.guests.playing import SERVERS
from tests.guests.test_origin_mcp_http import web

Call = Callable[..., Done]


def test_a_server_that_is_a_process_and_one_behind_a_url(call: Call, user: User) -> None:
    script = f"import sys, runpy; print('a complaint', file=sys.stderr); sys.argv = [{str(SERVERS / 'kind.py')!r}]; "
    script += "runpy.run_path(sys.argv[0], run_name='__main__')"
    user.ensemble(
        "near",
        f'[ensemble]\nname = "near"\n[connection]\norigin = "mcp"\n'
        f"command = [{json.dumps(sys.executable)}, '-c', {json.dumps(script)}]\n",
    )
    with web("http", "legacy") as server:
        user.ensemble("far", f'[ensemble]\nname = "far"\n[connection]\norigin = "mcp"\nurl = "{server.url}"\n')
        done = call("doctor", "--format", "json")
        shown = call("doctor")
    assert done.code == 0, done.err
    ensembles = {one["name"]: one for one in json.loads(done.out)["ensembles"]}
    assert ensembles["io"]["connection"] is None
    assert ensembles["near"]["connection"] == {
        "transport": "stdio",
        "protocol": "2026-07-28",
        "era": "modern",
        "server": "kind 1.0",
        "complaints": ["a complaint"],
    }
    assert ensembles["far"]["connection"] == {
        "transport": "http",
        "protocol": "2025-11-25",
        "era": "handshake",
        "server": "changing 1",
        "complaints": [],
    }
    assert ensembles["near"]["seconds"] > 0
    assert any(alert.startswith("near.add: 2 hidden characters") for alert in ensembles["near"]["alerts"])
    assert "Last lines of the standard error of near\n  a complaint\n" in shown.out
    (line,) = [line for line in shown.out.splitlines() if line.startswith("far ") and "handshake" in line]
    assert line.split()[1:4] == ["http", "2025-11-25", "handshake"]
