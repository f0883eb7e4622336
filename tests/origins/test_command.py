"""Programs as invocables: real processes, real files, real signals."""

import json
import pathlib
import re
import sys
from typing import Any

import pytest

from ripieno.ensembles import Outcome, Surroundings
from ripieno.exceptions import ConnectionFailure, ExecutionFault, ResourceFault, ValidationFault
from tests.support.toml_ensembles import call, check, make_ensemble, surround

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))"


@pytest.fixture
def surroundings(tmp_path: pathlib.Path) -> Surroundings:
    return surround(tmp_path, secrets={"TOKEN": "s3cret"})


def tool(argv: list[Any], more: str = "", arguments: str = "a = { type = 'string' }", header: str = "") -> str:
    """An ensemble of one program; ``argv`` as JSON is TOML as well, but for its tables."""
    written = re.sub(r'"(when|each|argv)": ', r"\1 = ", json.dumps(argv))
    return f"""
        [ensemble]
        name = "it"
        [[invokers]]
        name = "run"
        description = "Runs a program"
        {header}
        [invokers.arguments]
        type = "object"
        [invokers.arguments.properties]
        {arguments}
        [invokers.invocable]
        origin = "command"
        argv = {written}
        {more}
    """


def script(text: str) -> list[Any]:
    return ["sh", "-c", text]


async def run(text: str, surroundings: Surroundings, folder: pathlib.Path | None = None, **arguments: Any) -> Outcome:
    assert check(text, folder) == []
    async with make_ensemble(text, surroundings, folder) as ensemble:
        outcome = await call(ensemble, "run", **arguments)
    assert isinstance(outcome, Outcome)
    return outcome


async def test_what_a_program_is_given(
    surroundings: Surroundings, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary")
    (tmp_path / "sub").mkdir()
    argv = [sys.executable, "-c", SHOW, "--a={a}", {"when": "b", "argv": ["-b", "{b}"]}, "--", {"each": "c"}]
    more = 'directory = "sub"\nstdin = "<{a}>"\nenvironment = { KEY = "{env:TOKEN} {a}" }'
    arguments = "a = { type = 'string', default = 'x y' }\nb.type = 'integer'\nc = { type = 'array', items = {} }"
    text = tool(argv, more, arguments)
    outcome = await run(text, surroundings, c=["-1", "", "$(x)"])
    assert isinstance(outcome.content, str)
    given_argv, environment, directory, stdin = json.loads(outcome.content)
    assert given_argv == ["--a=x y", "--", "-1", "", "$(x)"]
    assert environment.pop("KEY") == "s3cret x y"
    assert environment.keys() <= {"PATH", "LANG", "TZ", "TMPDIR", "HOME", "LC_CTYPE"}
    assert (directory, stdin) == (str(tmp_path / "sub"), "<x y>")
    outcome = await run(text, surroundings, a="1", b=0)
    assert json.loads(str(outcome.content))[0] == ["--a=1", "-b", "0", "--"]


async def test_a_result_tells_how_the_program_ended(surroundings: Surroundings) -> None:
    outcome = await run(tool(script("echo out; echo err >&2")), surroundings)
    assert (outcome.content, outcome.exit_code, outcome.total_bytes) == ("out\n", 0, 8)
    outcome = await run(tool(script("echo out; exit 3"), "success = [0, 3]"), surroundings)
    assert (outcome.content, outcome.exit_code) == ("out\n", 3)
    # Some programs say what they did where others complain.
    outcome = await run(tool(script("echo pushed >&2")), surroundings)
    assert outcome.content == "pushed\n"


async def test_a_failure_shows_both_streams(surroundings: Surroundings) -> None:
    with pytest.raises(ExecutionFault) as raised:
        await run(tool(script("echo half; echo because >&2; exit 3")), surroundings)
    assert str(raised.value) == "'sh' ended with exit code 3.\nhalf\n--- standard error ---\nbecause"
    assert raised.value.details == {"exit_code": 3, "stdout": "half\n", "stderr": "because\n"}
    assert raised.value.code == "exit_code"
    # The advice is that of grep without a match only for a silent exit code 1.
    for text, more, hint in (
        ("exit 1", "", "success = [0, 1] beside argv"),
        ("exit 1", "success = [0, 4]", "success = [0, 1, 4] beside argv"),
        ("echo out; exit 1", "", "Check the command"),
        ("exit 2", "", "Check the command"),
    ):
        with pytest.raises(ExecutionFault) as raised:
            await run(tool(script(text), more), surroundings)
        assert hint in str(raised.value.suggestion)
    with pytest.raises(ExecutionFault, match=r"^'sh' was ended by the signal SIGKILL\.$"):
        await run(tool(script("kill -9 $$")), surroundings)
    with pytest.raises(ExecutionFault, match="exit code 0"):
        await run(tool(["true"], "success = [1]"), surroundings)


async def test_output_is_bounded_where_it_is_read(surroundings: Surroundings) -> None:
    header = 'output = "1 KiB"'
    flood = "i=0; while [ $i -lt 5000 ]; do echo line $i; echo line $i >&2; i=$((i+1)); done"
    outcome = await run(tool(script(flood), header=header), surroundings)
    assert isinstance(outcome.content, str)
    assert len(outcome.content.encode()) <= 1024
    assert outcome.content.startswith("line 0\n")
    assert outcome.content.endswith("line 4999\n")
    assert "bytes left out" in outcome.content
    assert (outcome.stdout_truncated, outcome.stderr_truncated) == (True, True)
    with pytest.raises(ExecutionFault) as raised:
        await run(tool(script(f"{flood}; exit 1"), header=header), surroundings)
    assert len(str(raised.value).encode()) < 1024 + 256
    assert str(raised.value).endswith("line 4999")


async def test_files_of_the_workspace_never_pass_for_programs(tmp_path: pathlib.Path) -> None:
    workspace, folder = tmp_path / "workspace", tmp_path / "folder"
    for place in (workspace, folder):
        place.mkdir()
        (place / "helper").write_text(f"#!/bin/sh\necho {place.name}\n")
        (place / "helper").chmod(0o755)
    assert (await run(tool(["./helper"]), surround(workspace), folder)).content == "folder\n"
    with pytest.raises(ResourceFault):
        await run(tool(["helper"]), surround(workspace), folder)


async def test_presets_fill_places_too(surroundings: Surroundings) -> None:
    arguments = "a = { type = 'string', default = 'x' }\nb.type = 'string'"
    text = tool(["echo", "{a}", "{b}"], "presets = { b = 'fixed' }", arguments)
    assert (await run(text, surroundings)).content == "x fixed\n"


async def test_a_variable_that_is_not_set_is_named_at_the_start(surroundings: Surroundings) -> None:
    text = tool(["true"], 'environment = { A = "{env:ABSENT}" }')
    with pytest.raises(ConnectionFailure, match="the variable ABSENT is not set"):
        await make_ensemble(text, surroundings).connect()


async def test_a_value_that_looks_like_an_option(surroundings: Surroundings) -> None:
    with pytest.raises(ValidationFault, match="would be read as an option"):
        await run(tool(["echo", "{a}"], arguments="a = { type = 'string', default = 'x' }"), surroundings, a="-n")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (tool(["echo", "{b}"]), "invokers[0].invocable.argv[1]", "'b' is not an argument"),
        (tool(["echo", "{a}"]), "invokers[0].invocable.argv[1]", "'a' may be absent"),
        (tool(["echo", {"when": "x", "argv": ["-x"]}]), "invokers[0].invocable.argv[1].when", "'x' is not an argument"),
        (tool(["{a}"]), "invokers[0].invocable.argv[0]", "the program must be a literal name"),
        (tool(["../x"]), "invokers[0].invocable.argv[0]", "is outside of this file's folder"),
        (tool(["./x"]), "invokers[0].invocable.argv[0]", "needs a folder"),
        (tool(["x"], "args = []"), "invokers[0].invocable.args", "[invocable] has no key args"),
        (tool(["x"], 'directory = "/"'), "invokers[0].invocable.directory", "without .."),
        (tool(["x"], 'directory = "a/../.."'), "invokers[0].invocable.directory", "without .."),
        (tool(["x"], 'stdin = "{env:TOKEN}"'), "invokers[0].invocable.stdin", "variables are not allowed here"),
        (tool(["x"], 'stdin = "{b}"'), "invokers[0].invocable.stdin", "'b' is not an argument"),
        (tool(["x"], "stdin = 1"), "invokers[0].invocable.stdin", "stdin must be a string"),
        (tool(["x"], 'environment = { A = "{b}" }'), "invokers[0].invocable.environment.A", "'b' is not an argument"),
        (tool(["x"], "project = true"), "invokers[0].invocable.project", "would run with all rights of this one"),
        (tool(["x"], "success = [256]"), "invokers[0].invocable.success[0]", "from 0 to 255"),
    ],
)
def test_settings_that_are_wrong(text: str, key: str, message: str) -> None:
    (problem,) = check(text)
    assert problem.key == key
    assert message in problem.message
