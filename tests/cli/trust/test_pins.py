"""``ripieno lock``: what is new is recorded, what changed is shown and refused; what a project shares needs trust."""

import json
import pathlib
import sys
import tomllib
from typing import Any

import pytest

from tests.support.command_line import ROOT, User
from tests.support.toml_ensembles import SERVERS
from tests.support.users import Call

TELL: dict[str, Any] = {"name": "tell", "description": "Tells it\nin two lines", "inputSchema": {"type": "object"}}
KEEP = {**TELL, "name": "keep"}


@pytest.fixture
def tools(user: User) -> pathlib.Path:
    """The file of a server's tools, whose ensemble this user has."""
    file = user.workspace / "tools.json"
    offer(file, TELL, KEEP)
    user.ensemble("it", text(file))
    user.configure('[ensembles]\nenabled = ["it"]\n')
    return file


def offer(file: pathlib.Path, *tools: dict[str, Any]) -> None:
    """From now on, the server that reads this file offers these."""
    file.write_text(json.dumps(tools))


def text(file: pathlib.Path, pin: str = "warn", more: str = "") -> str:
    command = json.dumps([sys.executable, str(SERVERS / "raw_tools_file.py"), str(file)])
    return f'[ensemble]\nname = "it"\npin = "{pin}"\n[connection]\norigin = "mcp"\ncommand = {command}\n{more}'


def recorded(user: User) -> dict[str, str]:
    """The texts of all definitions of the ensemble."""
    stored = tomllib.loads((user.state / "pins.toml").read_text())
    return {name: pin["definition"] for name, pin in stored["ensembles"]["it"]["tools"].items()}


def test_the_life_of_a_record(user: User, call: Call, tools: pathlib.Path) -> None:
    done = call("lock", "--check")
    assert (done.code, done.out, done.err) == (1, "it: 2 tools not recorded yet: tell, keep\n", "")
    assert not user.state.exists()
    done = call("lock")
    assert (done.code, done.out, done.err) == (0, "it: 2 tools recorded: tell, keep\n", "")
    assert (user.state / "pins.toml").stat().st_mode & 0o777 == 0o600
    for arguments in (["lock"], ["lock", "it"], ["lock", "--check"]):
        done = call(*arguments)
        assert (done.code, done.out) == (0, "it: unchanged, 2 tools.\n")

    before = recorded(user)
    offer(tools, {**TELL, "description": "Tells it\nin more lines\u202e"}, {**TELL, "name": "more"})
    done = call("lock", "--check")
    assert done.code == 1
    assert done.out.startswith("it:\n  changed: tell\n  new: more\n  gone: keep\n\n--- it.tell (approved)\n")
    assert '\n-    "in two lines"\n+    "in more lines"\n' in done.out
    assert '\n+  "name": "more"\n' in done.out
    assert recorded(user) == before

    done = call("lock")
    assert done.code == 1
    assert "  changed, not recorded: tell\n  new, recorded: more\n  gone: keep\n" in done.out
    assert done.out.endswith("\nTo approve this: ripieno lock --approve it\n")
    assert recorded(user) == {**before, "more": recorded(user)["more"]}

    done = call("lock", "it", "--approve")
    assert done.code == 0
    assert "  changed, approved now: tell\n  gone, deleted: keep\n" in done.out
    assert set(recorded(user)) == {"tell", "more"}
    assert call("lock", "--check").code == 0

    done = call("lock", "--forget", "it")
    assert (done.code, done.out) == (0, "Deleted the pins of it.\n")
    assert call("lock", "--check").code == 1
    assert call("lock", "--forget", "it").code == 2


def test_a_diff_acts_on_no_terminal(user: User, call: Call, tools: pathlib.Path) -> None:
    assert call("lock").code == 0
    # No model sees it, so that it is not cleaned.
    offer(tools, {**TELL, "annotations": {"title": "\x1b[2J\u202e\u200b"}}, KEEP)
    done = call("lock", "--check")
    assert done.code == 1
    assert "\\u202e\\u200b" in done.out
    assert not set("\x1b\u202e\u200b") & set(done.out)
    done = call("lock", "--check", "--format", "json")
    assert not set("\x1b\u202e\u200b") & set(done.out)


def test_what_is_required_and_not_pinned_is_not_offered(user: User, call: Call, tools: pathlib.Path) -> None:
    user.ensemble("it", text(tools, "required"))
    done = call("tools", "--format", "json")
    assert json.loads(done.out)["tools"] == []
    assert "not pinned: tell, keep. Show the difference: ripieno lock --check it." in done.err
    call("lock")
    done = call("tools", "--format", "json")
    assert [one["name"] for one in json.loads(done.out)["tools"]] == ["it__keep", "it__tell"]
    assert done.err == ""
    offer(tools, {**TELL, "title": "Else"}, KEEP)
    done = call("tools", "--format", "json")
    assert [one["name"] for one in json.loads(done.out)["tools"]] == ["it__keep"]
    assert "! it.tell: The tool is disabled: it differs from the approved one (changed: title)." in done.err
    (user.state / "pins.toml").write_text("nonsense")
    for arguments in (["tools"], ["lock"], ["lock", "--check"], ["lock", "--approve"], ["lock", "--export", "x"]):
        done = call(*arguments)
        assert (done.code, "pins.toml cannot be read" in done.err) == (2, True)
    assert (user.state / "pins.toml").read_text() == "nonsense"


def test_a_changed_command_is_shown_and_not_started(user: User, call: Call, tools: pathlib.Path) -> None:
    call("lock")
    started = user.workspace / "started"
    user.ensemble("it", text(tools, "required", f'environment = {{ STARTED = "{started}" }}\n'))
    for arguments in (["lock"], ["lock", "--check"]):
        done = call(*arguments)
        assert done.code == 1
        assert "it was not started" in done.out
        assert '\n+    "STARTED"\n' in done.out
    assert call("tools").code == 2
    assert not started.exists()
    done = call("lock", "--approve")
    assert (done.code, started.exists()) == (0, True)
    assert "  the command is changed, approved now\n" in done.out
    assert call("lock", "--check").code == 0


def test_json(user: User, call: Call, tools: pathlib.Path) -> None:
    call("lock")
    offer(tools, {**TELL, "description": "Else"}, KEEP, {**TELL, "name": "more"})
    (found,) = json.loads(call("lock", "--format", "json").out)["ensembles"]
    differences = found.pop("differences")
    assert set(differences) == {"it.tell", "it.more"}
    assert '+  "description": "Else"' in differences["it.tell"]
    assert found == {
        "ensemble": "it",
        "tools": ["keep", "more", "tell"],
        "new": ["more"],
        "changed": ["tell"],
        "gone": [],
        "command": "same",
        "started": True,
        "recorded": False,
        "failure": None,
    }


def test_what_cannot_be_connected_is_said_and_the_others_are_recorded(
    user: User, call: Call, tools: pathlib.Path
) -> None:
    user.ensemble("no", '[ensemble]\nname = "no"\n[connection]\norigin = "mcp"\ncommand = ["/no/such/program"]\n')
    user.configure('[ensembles]\nenabled = ["it", "no", "io"]\n')
    done = call("lock")
    assert done.code == 2
    assert done.out.splitlines()[1] == "no: not compared, because the connection failed."
    assert "Ensemble 'no'" in done.err
    assert set(recorded(user)) == {"tell", "keep"}
    assert call("lock", "it", "--check").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--check", "--approve"], "only one of"),
        (["--forget", "it", "--export", "x"], "only one of"),
        (["io"], "'io' has no connection"),
        (["nothing"], "no ensemble named 'nothing'"),
        (["--export", "x"], "There are no pins to share"),
        (["it", "--export", "x"], "no record of an ensemble named 'it'"),
    ],
)
def test_mistakes(user: User, call: Call, tools: pathlib.Path, arguments: list[str], said: str) -> None:
    user.configure('[ensembles]\nenabled = ["it", "io"]\n')
    done = call("lock", *arguments)
    assert (done.code, said in done.err) == (2, True)
    assert not (user.state / "pins.toml").exists()


def test_without_foreign_ensembles_there_is_nothing_to_pin(user: User, call: Call) -> None:
    done = call("lock")
    assert (done.code, "Nothing to pin" in done.out) == (0, True)


def test_an_exempt_ensemble_is_left_alone_unless_it_is_named(user: User, call: Call, tools: pathlib.Path) -> None:
    user.ensemble("it", text(tools, "off"))
    assert "Nothing to pin" in call("lock").out
    assert call("lock", "it").out == "it: 2 tools recorded: tell, keep\n"


def test_what_is_exported_counts_under_trust_only(user: User, call: Call, tools: pathlib.Path) -> None:
    user.ensemble("it", text(tools, "required"))
    call("lock")
    done = call("lock", "--export", "ripieno.lock.toml")
    assert (done.code, done.err) == (0, "")
    shared = user.workspace / "ripieno.lock.toml"
    assert str(SERVERS) not in shared.read_text()
    call("lock", "--forget", "it")
    (user.workspace / "ripieno.toml").write_text("")

    def offered() -> list[str]:
        return [one["name"] for one in json.loads(call("tools", "--format", "json").out)["tools"]]

    assert offered() == []
    done = call("trust", "--yes")
    assert str(shared) in done.out
    assert offered() == ["it__keep", "it__tell"]
    # A continuous integration has no record of its own.
    assert call("lock", "--check").code == 0
    offer(tools, {**TELL, "description": "Else"}, KEEP)
    assert offered() == ["it__keep"]
    assert "changed: tell" in call("lock", "--check").out
    # Its own record wins, and says so.
    assert call("lock", "--approve").code == 0
    assert offered() == ["it__keep", "it__tell"]
    assert "The project's pins of 'it' differ from yours (tell). Yours apply." in call("tools").err
    # Somebody changes the file: it counts no more.
    call("lock", "--forget", "it")
    shared.write_text(shared.read_text() + "\n")
    assert offered() == []
    # Trusted again, but broken: nobody knows what it would forbid.
    shared.write_text("nonsense")
    call("trust", "--yes")
    done = call("tools")
    assert (done.code, "ripieno.lock.toml cannot be read" in done.err) == (2, True)


def test_an_export_overwrites_pins_alone(user: User, call: Call, tools: pathlib.Path) -> None:
    call("lock")
    file = user.workspace / "ripieno.toml"
    file.write_text("[limits]\nturns = 3\n")
    done = call("lock", "--export", "ripieno.toml")
    assert (done.code, "It is not overwritten" in done.err) == (2, True)
    assert file.read_text() == "[limits]\nturns = 3\n"
    assert [call("lock", "it", "--export", "pins.toml").code for _ in range(2)] == [0, 0]


# What ``ripieno doctor`` says of pins


def pins(call: Call, *arguments: str) -> tuple[dict[str, Any], str]:
    """How the pins of the ensemble ``it`` stand, as JSON; and the row of it."""
    done = call("doctor", "--format", "json", *arguments)
    shown = call("doctor", "--full", *arguments)
    (facts,) = [one["pins"] for one in json.loads(done.out)["ensembles"] if one["name"] == "it"]
    (section,) = [part for part in shown.out.split("\n\n") if part.startswith("Pins\n")]
    (row,) = [line for line in section.splitlines() if line.startswith("it ")]
    return facts, " ".join(row.split())


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
    assert "\nPins\n" not in call("doctor", "--no-connect", "--full").out


def test_the_lines_for_continuous_integration_compare_with_the_shared_pins(
    user: User, call: Call, tools: pathlib.Path
) -> None:
    """In a checkout with its own server, by a user who has neither trusted nor recorded anything."""
    call("lock")
    call("lock", "--export", "ripieno.lock.toml")
    call("lock", "--forget", "it")
    user.configure("")
    (user.configuration / "ensembles" / "it.toml").unlink()
    folder = user.workspace / "ensembles"
    folder.mkdir()
    (folder / "it.toml").write_text(text(tools))
    (user.workspace / "ripieno.toml").write_text('[ensembles]\nenabled = ["it"]\n')
    page = (ROOT / "documentation" / "tutorials" / "pin-servers.rst").read_text()
    block = page.partition("In continuous integration::\n\n")[2].partition("\n\n")[0]
    trusting, comparing = (line.split()[1:] for line in block.splitlines())
    assert call(*trusting).code == 0
    done = call(*comparing)
    assert (done.code, done.out) == (0, "it: unchanged, 2 tools.\n"), done.err
    offer(tools, {**TELL, "description": "Tells more."}, KEEP)
    assert call(*comparing).code == 1
    # What is not trusted any more could not be compared: no success.
    (folder / "it.toml").write_text(text(tools, more="# Changed."))
    done = call(*comparing)
    assert (done.code, "Not everything could be compared: [ensembles], it of this folder" in done.err) == (2, True)
    assert call(*trusting).code == 0
    assert call(*comparing).code == 1
