"""``ripieno doctor`` on connections: what carries them, how old they speak, what servers complained about; and pins."""

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.trust.test_pins import KEEP, TELL, offer, text
from tests.origins.mcp.test_http import web
from tests.support.command_line import User
from tests.support.toml_ensembles import SERVERS
from tests.support.users import Done

Call = Callable[..., Done]


def test_a_server_that_is_a_process_and_one_behind_a_url(call: Call, user: User) -> None:
    script = (
        f"import sys, runpy; print('a complaint', file=sys.stderr); sys.argv = [{str(SERVERS / 'well_behaved.py')!r}]; "
    )
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


def pins(call: Call, *arguments: str) -> tuple[dict[str, Any], str]:
    """How the pins of the ensemble ``it`` stand, as JSON; and the row of it."""
    done = call("doctor", "--format", "json", *arguments)
    shown = call("doctor", *arguments)
    (facts,) = [one["pins"] for one in json.loads(done.out)["ensembles"] if one["name"] == "it"]
    (section,) = [part for part in shown.out.split("\n\n") if part.startswith("Pins\n")]
    (row,) = [line for line in section.splitlines() if line.startswith("it ")]
    return facts, " ".join(row.split())


@pytest.fixture
def tools(user: User) -> pathlib.Path:
    """The file of a server's tools, whose ensemble this user has."""
    file = user.workspace / "tools.json"
    offer(file, TELL, KEEP)
    user.ensemble("it", text(file))
    user.configure('[ensembles]\nenabled = ["it"]\n')
    return file


SAME: dict[str, Any] = {"reason": None, "advice": None, "new": [], "changed": [], "gone": [], "command": "same"}


def test_pins_stand_as_they_do(user: User, call: Call, tools: pathlib.Path) -> None:
    mode = "warn"
    user.ensemble("it", text(tools, mode))
    lock, approve = "ripieno lock it", "ripieno lock --approve it"
    unpinned = {**SAME, "mode": mode, "state": "not pinned", "recorded": None, "advice": lock}
    assert pins(call) == (unpinned, f"it {mode} not pinned {lock}")
    call("lock")
    pinned = {**SAME, "mode": mode, "state": "same", "recorded": 2}
    assert pins(call) == (pinned, f"it {mode} pinned 2 tools")
    assert pins(call, "--no-connect") == (
        {**pinned, "state": "not compared"},
        f"it {mode} pinned 2 tools, not compared",
    )
    offer(tools, TELL, KEEP, {**TELL, "name": "more"})
    more = {**pinned, "state": "new", "new": ["more"], "advice": approve}
    assert pins(call) == (more, f"it {mode} pinned 2 tools; new: more {approve}")
    offer(tools, {**TELL, "title": "Else"}, {**TELL, "name": "more"})
    changed = {**more, "state": "changed", "changed": ["tell"], "gone": ["keep"]}
    assert pins(call) == (changed, f"it {mode} pinned 2 tools; changed: tell; new: more; gone: keep {approve}")
    call("lock", "--approve", "it")
    assert pins(call) == (pinned, f"it {mode} pinned 2 tools")


def test_a_changed_command_and_broken_pins_are_said_without_a_connection(
    user: User, call: Call, tools: pathlib.Path
) -> None:
    call("lock")
    user.ensemble("it", text(tools, "required").replace('", "', '", "-I", "', 1))
    facts, row = pins(call)
    assert (facts["state"], facts["command"], facts["new"]) == ("changed", "changed", [])
    assert row == "it required pinned 2 tools; the command is changed ripieno lock --approve it"
    assert pins(call, "--no-connect") == (facts, row)
    (user.state / "pins.toml").write_text("nonsense")
    facts, row = pins(call, "--no-connect")
    assert facts["state"] == "unreadable"
    assert "pins.toml cannot be read" in facts["reason"]
    assert "pins.toml cannot be read" in row


def test_pins_that_nobody_wants_and_tools_of_our_own(user: User, call: Call, tools: pathlib.Path) -> None:
    user.ensemble("it", text(tools, "off"))
    user.configure('[ensembles]\nenabled = ["it", "io"]\n')
    assert pins(call) == ({**SAME, "mode": "off", "state": "off", "recorded": None}, "it off not compared")
    ensembles = json.loads(call("doctor", "--format", "json", "--no-connect").out)["ensembles"]
    assert {one["name"] for one in ensembles if one["pins"] is not None} == {"it"}
    user.configure('[ensembles]\nenabled = ["io"]\n')
    assert "\nPins\n" not in call("doctor", "--no-connect").out
