"""What a person reads of servers that do not start, tools that are left out, and variables that nobody has set."""

import json
import pathlib
import sys
from typing import Any

import pytest

from ripieno.cli.common import exit_codes
from tests.cli.trust.test_pins import KEEP, TELL, offer, text
from tests.origins.mcp.test_http import web
from tests.support.command_line import Screen, User
from tests.support.toml_ensembles import SERVERS
from tests.support.users import Call

#: A server that complains twice, and ends.
FALLING = "import sys; print('first words', file=sys.stderr); print('last words', file=sys.stderr); sys.exit(3)"


def ensemble(name: str, connection: str, more: str = "") -> str:
    """An optional server."""
    head = f'[ensemble]\nname = "{name}"\ndescription = "One."\nrequired = false\n[connection]\norigin = "mcp"\n'
    return f"{head}{connection}\n{more}"


def command(*arguments: str) -> str:
    return f"command = {json.dumps([sys.executable, *arguments])}"


@pytest.fixture
def ghost(user: User) -> None:
    """A user whose only server ends at once, and is optional."""
    user.ensemble("ghost", ensemble("ghost", command("-c", FALLING)))
    user.configure('[ensembles]\nenabled = ["ghost"]\n')


def doctor(call: Call) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(call("doctor", "--format", "json").out)
    return facts


def sections(shown: str) -> dict[str, list[str]]:
    """The lines of each section of the doctor's, by its title."""
    parts = [part.splitlines() for part in shown.strip().split("\n\n")]
    return {part[0]: part[1:] for part in parts}


@pytest.mark.usefixtures("ghost")
def test_the_doctor_tells_all_of_an_optional_server_that_does_not_start(call: Call) -> None:
    done = call("doctor", "--full")
    assert done.code == exit_codes.GOOD
    found = sections(done.out)
    reason = found["Why ghost does not start"]
    assert reason[0] == "  the MCP server ended with exit code 3."
    assert reason[2:] == ["  The last lines of its standard error:", "    first words", "    last words"]
    assert done.out.splitlines()[-1] == "Everything required can start. Optional ensembles that cannot: ghost."
    # Nothing is there that could be recorded.
    assert not any("ripieno lock" in line for line in found["Pins"])
    (one,) = [one for one in doctor(call)["ensembles"] if one["name"] == "ghost"]
    assert one["reason"].startswith("the MCP server ended")
    assert one["pins"]["advice"] is None
    assert "all ensembles at once" in call("doctor", "--help").out


@pytest.mark.usefixtures("ghost")
def test_an_optional_server_that_does_not_start_is_named_once_and_not_unknown(call: Call) -> None:
    done = call("invoke", "ghost.look")
    assert done.code == exit_codes.INPUT
    assert done.err.startswith("! Ensemble 'ghost' is left out: the MCP server ended with exit code 3.\n")
    last = done.err.splitlines()[-1]
    assert last == "Error: The ensemble 'ghost' is not available: the MCP server ended with exit code 3."
    listed = json.loads(call("tools", "--format", "json").out)
    (absence,) = listed["absences"]
    assert absence["reason"].startswith("the MCP server ended")


def test_a_required_server_that_does_not_start_is_told_once(call: Call, user: User) -> None:
    user.ensemble("ghost", ensemble("ghost", command("-c", FALLING)).replace("required = false\n", ""))
    user.configure('[ensembles]\nenabled = ["ghost"]\n')
    done = call("doctor")
    assert done.code == exit_codes.INPUT
    assert done.out.count("Ensemble 'ghost'") == 1
    assert done.out.splitlines().count("    last words") == 1
    started = call("ask", "-m", "score:demo", "Hello").err.splitlines()
    assert started[-1] == "To start without an ensemble that cannot connect: required = false under its [ensemble]"


def test_variables_that_are_named_and_not_set(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    monkeypatch.setenv("HERE", "1")
    headers = 'url = "http://127.0.0.1:1/mcp"\nheaders = { A = "{env:NO_SUCH_TOKEN}", B = "{env:HERE}" }'
    for name in ("one", "two"):
        user.ensemble(name, ensemble(name, headers))
    user.configure('[ensembles]\nenabled = ["one", "two"]\n')
    done = call("check")
    assert done.code == exit_codes.GOOD
    (line,) = [line for line in done.out.splitlines() if " warning: " in line]
    assert line.endswith("one.toml:8: warning: the variable NO_SUCH_TOKEN is not set, and is needed by 'one' and 'two'")
    assert "hint: Set it: export NO_SUCH_TOKEN=...\n" in done.out
    file = user.configuration / "ensembles" / "one.toml"
    optional = file.read_text()
    file.write_text(optional.replace("required = false\n", ""))
    hint = (
        "Set it: export NO_SUCH_TOKEN=... Without it, every start with 'one' fails. To start without the ensemble "
        "instead: "
    )
    assert f"hint: {hint}required = false under its [ensemble].\n" in call("check").out
    assert call("tools").code == exit_codes.INPUT
    file.write_text(optional)
    assert sections(call("doctor").out)["Variables that are not set"] == [
        "  NO_SUCH_TOKEN, for one",
        "  NO_SUCH_TOKEN, for two",
    ]
    user.configure('[ensembles]\nenabled = ["one", "two"]\n[environment]\nallow = ["HERE"]\n')
    hint = "Only variables in allow under [environment] are read: add NO_SUCH_TOKEN to it."
    assert hint in call("check").out
    assert hint in call("invoke", "one.look").err
    monkeypatch.setenv("NO_SUCH_TOKEN", "1")
    out = call("check").out
    assert "warning: the variable NO_SUCH_TOKEN is not allowed, and is needed by 'one' and 'two'" in out
    assert "It is set, but only variables in allow under [environment] are read: add NO_SUCH_TOKEN to it." in out
    user.configure('[ensembles]\nenabled = ["one", "two"]\n')
    assert " warning: " not in call("check").out


def test_a_tool_that_is_left_out_is_named_with_the_reason(call: Call, user: User, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tools.json"
    offer(file, TELL, KEEP)
    user.configure('[ensembles]\nenabled = ["it"]\n')
    path = user.ensemble("it", text(file, "required", "[overrides.keep]\nenabled = false\n"))
    assert call("lock").code == exit_codes.GOOD
    done = call("invoke", "it.keep")
    assert done.code == exit_codes.INPUT
    assert done.err == f"Error: The tool 'it.keep' is left out: it is not enabled (enabled = false, {path}).\n"
    offer(file, {**TELL, "description": "Else."}, KEEP)
    done = call("invoke", "it.tell")
    assert done.code == exit_codes.INPUT
    said = done.err.splitlines()[-1]
    assert said.startswith("Error: The tool 'it.tell' is left out: it differs from its pin, or has none. ")
    assert said.endswith("ripieno lock --approve it.")
    assert "There is no tool named 'it.tall'." in call("invoke", "it.tall").err


def test_the_last_words_of_a_server_that_dies_in_a_call(call: Call, user: User) -> None:
    user.ensemble("it", ensemble("it", command(str(SERVERS / "misbehaving.py"))))
    user.configure('[ensembles]\nenabled = ["it"]\n')
    done = call("invoke", "it.die", "--yes")
    assert done.code == exit_codes.REFUSED
    assert "! it.die: Its server is gone. The last lines of its standard error:\n  dying now\n" in done.err
    assert "it ended with exit code 5" in done.err


def test_where_nobody_has_to_sign_in(call: Call, user: User) -> None:
    with web("http", "legacy") as server:
        oauth = f'url = "{server.url}"\noauth = {{ grant = "authorization_code" }}'
        user.ensemble("open", ensemble("open", oauth))
        user.configure('[ensembles]\nenabled = ["open"]\n')
        done = call("login", "open", "--no-browser", "--timeout", "20")
        shown = call("doctor", "--full")
    assert done.code == exit_codes.INPUT
    assert "does not require a sign-in. Remove oauth from [connection]." in done.err
    (row,) = [line for line in sections(shown.out)["Sign-ins"] if line.startswith("open")]
    assert row.split(maxsplit=1)[1].split("  ")[0] == "not needed to start"
    assert row.endswith("works without a sign-in")
    assert "ripieno login" not in shown.out


def test_who_waits_at_a_terminal_is_told_for_what(user: User) -> None:
    user.ensemble("mute", ensemble("mute", 'command = ["sleep", "60"]\ntimeout = 4'))
    user.configure('[ensembles]\nenabled = ["mute"]\n')
    with Screen(user, "tools") as screen:
        screen.wait_for("Still connecting: mute ...")
        screen.wait_for("was not ready within 4 s")
        assert screen.end() == exit_codes.GOOD
    user.ensemble("mute", ensemble("mute", 'command = ["sleep", "60"]\ntimeout = 0.2'))
    done = user.call("tools")
    assert "Still connecting" not in done.stderr


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
        shown = call("doctor", "--full")
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
