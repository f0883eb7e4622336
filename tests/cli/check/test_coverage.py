"""``ripieno check --profile`` and ``--for``, and where tools that are left out are shown."""

import json
import pathlib
import re
import textwrap
from typing import Any

import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import ROOT, User
from tests.support.users import Call, Done

PLAIN = '[sandbox]\nlevel = "off"\n'
GRANTED = f'{PLAIN}[configuration.network]\nhosts = ["a.example"]\n'


def report(done: Done) -> dict[str, Any]:
    """What was printed as JSON."""
    mapping: dict[str, Any] = json.loads(done.out)
    return mapping


def test_what_is_missing_as_json(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(GRANTED)
    for name in ("go", "playwright-mcp"):
        (equipped / name).unlink()
    done = call("check", "--profile", "full", "--format", "json")
    coverage = report(done)
    assert done.code == exit_codes.REFUSED
    assert (coverage["complete"], coverage["fulfilled"], coverage["missing_tools"]) == (True, False, ["go_test"])
    (testing,) = [one for one in coverage["categories"] if one["name"] == "testing"]
    assert (testing["state"], testing["coverage_percent"]) == ("yes", 80.0)
    (tool,) = [one for one in testing["tools"] if one["name"] == "go_test"]
    assert tool == {
        "name": "go_test",
        "ensemble": "testing",
        "present": True,
        "described": True,
        "callable": False,
        "granted": True,
        "reason": "it requires 'command:go', and there is no program 'go' in any folder of PATH",
        "fallback": ["run_tests"],
    }
    assert coverage["matrix"]["Browser"] == "missing"
    states = {one["name"]: one["state"] for one in coverage["ensembles"]}
    assert states == {"browser": "missing", "docker": "yes", "outputs": "yes"}


def test_the_table(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(GRANTED)
    (equipped / "node").unlink()
    done = call("check", "--profile", "swe-agent")
    lines = [line.split() for line in done.out.splitlines()]
    assert done.code == exit_codes.GOOD
    assert ["execution", "yes", "4", "4", "3", "75", "%"] in lines
    assert ["network", "no", "7", "0", "0", "0", "%"] in lines
    assert ["PROFILE", "BASH", "FILES", "GIT", "TESTS", "NETWORK", "BROWSER", "DOCKER"] in lines
    assert ["swe-agent", "yes", "yes", "yes", "yes", "no", "no", "no"] in lines
    (node,) = [line for line in done.out.splitlines() if line.startswith("node_exec")]
    assert node.endswith("python_exec")
    assert "there is no program 'node'" in node
    assert done.out.splitlines()[-1].startswith("The profile 'swe-agent' has 12 of 13 categories")
    # One tool is a warning.
    assert call("check", "--profile", "swe-agent", "--strict").code == exit_codes.REFUSED


def test_tasks(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(GRANTED)
    done = call("check", "--profile", "minimal", "--for", "python,web", "--format", "json")
    task = report(done)["task"]
    assert done.code == exit_codes.GOOD
    assert (task["for"], task["ready"]) == (["python", "web"], True)
    assert task["include"] == ["python", "testing", "network", "browser"]
    (equipped / "black").unlink()
    done = call("check", "--profile", "minimal", "--for", "python", "--for", "web")
    assert done.code == exit_codes.REFUSED
    assert 'include = ["python", "testing", "network", "browser"]' in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert ["FOR", "PYTHON,", "WEB", "KIND", "STATE"] in lines
    assert ["black", "tool", "missing"] in lines
    assert ["browser", "ensemble", "yes"] in lines
    assert done.out.endswith(" Missing for python, web: black.\n")
    assert call("check", "--for", "web").out.endswith(" Missing for web: nothing.\n")


def test_what_a_configuration_includes_needs_no_advice(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(f'{GRANTED}[ensembles]\nprofile = "standard"\ninclude = ["python"]\n')
    done = call("check", "--for", "python", "--format", "json")
    assert (done.code, report(done)["task"]["include"], report(done)["profile"]) == (exit_codes.GOOD, [], "standard")


def test_a_network_that_nobody_granted(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(PLAIN)
    done = call("check", "--profile", "full")
    # It is the operator's choice, and no lack of this machine; nobody is offered the tools, though.
    assert done.code == exit_codes.GOOD
    assert call("check", "--profile", "full", "--strict").code == exit_codes.REFUSED
    lines = [line for line in done.out.splitlines() if "http_request" in line]
    (row,) = [line.split("  ") for line in done.out.splitlines() if line.startswith("network ")]
    assert [cell.strip() for cell in row if cell] == ["network", "not granted", "7", "7", "0", "0 %"]
    # All of it has one reason, which is told once, with what to write.
    (line,) = lines
    assert line.split("  ")[0] == "http_request, http_get, http_post, curl, wget, download, upload"
    assert 'the network is not granted: set hosts = ["api.example.org"] under [configuration.network]' in line
    assert "12 of 13 categories" in done.out.splitlines()[-1]
    assert done.out.endswith(" Not granted: network.\n")
    reported = report(call("check", "--profile", "full", "--format", "json"))
    assert (reported["matrix"]["Network"], reported["complete"], reported["fulfilled"]) == ("not granted", False, True)
    assert reported["missing_categories"] == ["network"]
    (network,) = [one for one in reported["categories"] if one["name"] == "network"]
    assert network["state"] == "not granted"
    assert {(tool["described"], tool["callable"], tool["granted"]) for tool in network["tools"]} == {
        (True, False, False)
    }
    user.configure(f'{PLAIN}[ensembles]\nenabled = ["network"]\n')
    assert "http_get" not in call("tools").out
    assert "the network is not granted: set hosts" in call("tools", "--all").out
    assert "the network is not granted: set hosts" in call("doctor").out


def test_a_task_needs_nothing_of_a_profile_that_nobody_named(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(PLAIN)
    done = call("check", "--for", "python")
    assert (done.code, "yes" in done.out) == (exit_codes.GOOD, True)
    # The default profile applies.
    assert "The profile 'starter' has 1 of 13 categories" in done.out
    assert "This profile is small on purpose." in done.out
    user.configure(f'{PLAIN}[ensembles]\ninclude = ["network"]\n')
    (row,) = [line for line in call("check", "--for", "python").out.splitlines() if line.startswith("starter ")]
    assert "not granted" in row


@pytest.mark.usefixtures("call")
def test_the_example_of_the_guide(user: User, equipped: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the guide shows in Python prints what stands beneath it, on the machine that it speaks of."""
    user.configure(PLAIN)
    for name in ("go", "playwright-mcp"):
        (equipped / name).unlink()
    guide = (ROOT / "documentation" / "tutorials" / "profiles.rst").read_text(encoding="utf-8")
    shown = re.search(r"code-block:: python\n\n(.*?)\n\nprints.*?code-block:: text\n\n(.*?)\n\n\S", guide, re.DOTALL)
    assert shown is not None
    exec(textwrap.dedent(shown[1]), {})
    assert capsys.readouterr().out.splitlines() == textwrap.dedent(shown[2]).splitlines()


def test_mistakes(call: Call) -> None:
    for option in ("--profile", "--for"):
        assert call("check", option, "").code == exit_codes.INPUT
    done = call("check", "--profile", "fulll")
    assert done.code == exit_codes.INPUT
    assert "Did you mean 'full'?" in done.err
    done = call("check", "--for", "pyton")
    assert (done.code, done.err.count("Did you mean 'python'?")) == (exit_codes.INPUT, 1)
    done = call("check", "some.toml", "--profile", "full")
    assert done.code == exit_codes.INPUT
    assert "To check files, leave them out" in done.err


def test_no_tool_goes_missing_without_a_line(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(f'{GRANTED}[ensembles]\nenabled = ["execution", "docker"]\n')
    for name in ("node", "docker"):
        (equipped / name).unlink()
    done = call("tools")
    assert done.code == exit_codes.GOOD
    assert "node_exec" not in done.out
    assert "Unavailable: 2 more. For the reasons: ripieno tools --all" in done.err
    done = call("tools", "--all")
    lines = done.out.splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("UNAVAILABLE"))) :]
    assert [line.split()[0] for line in table[1:]] == ["execution.node_exec", "docker"]
    assert all("there is no program" in line for line in table[1:])
    left_out = json.loads(call("tools", "--format", "json").out)["tools_left_out"]
    assert set(left_out) == {"execution.node_exec", "docker"}
    done = call("doctor")
    assert done.code == exit_codes.GOOD
    assert "execution.node_exec: it requires 'command:node'" in done.out
    (docker,) = [line.split() for line in done.out.splitlines() if line.startswith("docker ")]
    assert docker[1] == "no"
    assert "there is no program 'docker'" in done.out


def test_a_start_with_a_profile_says_what_is_missing(call: Call, user: User, equipped: pathlib.Path) -> None:
    user.configure(f'{GRANTED}[ensembles]\nprofile = "minimal"\n')
    (equipped / "node").unlink()
    done = call("tools")
    assert "! The profile 'minimal' has 8 of 13 categories" in done.err
    assert "Missing: node_exec." in done.err
    # Who asks for one ensemble is not told of the others.
    done = call("tools", "--ensemble", "reasoning")
    assert done.err == ""
