"""A shell, programs without one, and code: what they give, what they refuse, and where they end."""

import asyncio
import os
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ripieno.conducting import conduct
from tests.skips import lacking
from tests.support.live_processes import Outputs
from tests.support.scripted_models import fault_of, invoke, invokes, results_of, says, scripted
from tests.support.virtual_time import MovableClock
from tests.toolset.bundled_tools import Tools, code_of, text_of, tools_of, write_program


@pytest.fixture
async def tools(workspace: pathlib.Path) -> AsyncIterator[Tools]:
    async with tools_of("execution", workspace, {"environment": ["CI", "DEBUG*", "*", "PYTHONHASHSEED"]}) as one:
        yield one


async def test_a_command_gives_both_streams_and_its_exit_code(tools: Tools) -> None:
    (tools.workspace / "sub").mkdir()
    result = await tools("bash", command="echo out; echo err >&2; pwd", working_directory="sub")
    expected = f"out\n{tools.workspace / 'sub'}\n--- standard error ---\nerr\n[exit code 0]"
    assert text_of(result) == expected
    assert result.report.exit_code == 0
    assert result.report.sandbox is not None


async def test_a_program_that_was_not_started_has_no_exit_code(workspace: pathlib.Path) -> None:
    write_program(workspace / "it", "#!/missing/interpreter\n")
    async with tools_of("execution", workspace, sandbox={"level": "auto"}) as tools:
        result = await tools("run_command", argv=["./it"])
    assert code_of(result) == "not_started"
    assert result.report.exit_code is None


async def test_a_command_that_fails_says_so_to_the_model(tools: Tools) -> None:
    result = await tools("bash", command="echo half; exit 3")
    advice = "Check the command and its output, then fix it or try another approach."
    assert text_of(result) == f"Error: 'bash' ended with exit code 3.\nhalf\n{advice}"
    assert result.report.exit_code == 3
    assert result.error is not None
    assert result.error.details["exit_code"] == 3
    assert result.error.recoverable


@pytest.mark.parametrize(
    ("tool", "arguments", "streams"),
    [
        ("bash", {"command": "yes err | head -c 200000 >&2"}, (False, True)),
        ("bash", {"command": "yes out | head -c 200000; echo err >&2"}, (True, False)),
        ("bash", {"command": "yes out | head -c 200000; yes err | head -c 200000 >&2"}, (True, True)),
        ("python_exec", {"code": "import sys; sys.stderr.write('err ' * 50000)"}, (False, True)),
    ],
)
async def test_the_report_names_the_stream_that_was_cut(
    tool: str, arguments: dict[str, Any], streams: tuple[bool, bool], tools: Tools
) -> None:
    report = (await tools(tool, **arguments)).report
    assert (report.stdout_truncated, report.stderr_truncated) == streams


async def test_a_program_that_fails_after_much_output_keeps_its_exit_code(tools: Tools) -> None:
    result = await tools("bash", command="yes out | head -c 200000; echo last >&2; exit 3")
    assert result.error is not None
    assert (result.error.details["exit_code"], result.error.details["stderr"]) == (3, "last\n")
    assert str(result.error.details["stdout"]).startswith("out\nout\n")


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("./none", "The program was not found"),
        ("touch plain; ./plain", "run it with its interpreter"),
        ("kill -KILL $$", "too much memory"),
        ("sh -c 'kill -KILL $$'; exit $?", "too much memory"),
        ("exec yes", "less output"),
    ],
)
async def test_each_way_to_fail_has_its_advice(command: str, advice: str, tools: Tools) -> None:
    result = await tools("bash", command=command)
    assert result.error is not None
    assert advice in str(result.error.suggestion)


SLOW = "echo reached; sleep 600"


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [
        ("bash", {"command": SLOW}, SLOW),
        ("bash", {"command": f"{SLOW}\ntrue"}, f"{SLOW}\ntrue"),
        ("run_command", {"argv": ["sh", "-c", SLOW]}, f"sh -c '{SLOW}'"),
    ],
)
async def test_a_timeout_reports_the_limit_and_the_command_as_given(
    tool: str, arguments: dict[str, Any], command: str, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, outputs = MovableClock(), Outputs(monkeypatch)
    calling = asyncio.create_task(tools(tool, **arguments, timeout_seconds=7))
    await outputs.have(b"reached")
    await clock.move(7.5)
    result = await calling
    assert result.error is not None
    shown = command.replace("\ntrue", " …")
    assert result.error.message.startswith(f"{shown!r} did not finish within 7 s and was ended.")
    assert result.error.details == {"command": command, "timeout_seconds": 7, "partial_output": "reached"}


async def test_the_model_reads_what_a_command_had_written_when_its_run_was_stopped(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = Outputs(monkeypatch)
    call = invokes(invoke("bash", command=SLOW, env={"CI": "1"}))
    run = conduct(scripted(call, says()), "Go.", ensembles=[tools.ensemble], execution=tools.execution)
    async with run:
        await outputs.have(b"reached")
        run.cancel()
        (result,) = results_of((await run).canisters)
    assert fault_of(result).category == "cancelled"
    assert result.text.startswith(f"Error: The call was cancelled, and {SLOW!r} was ended. Its output:\nreached\n")
    # The program may have begun to work with the variables of its call.
    assert [one.kind for one in result.report.changes] == ["EnvVarSet"]


async def test_changes_of_files_are_reported_also_by_a_program_that_fails(tools: Tools) -> None:
    (tools.workspace / "old.txt").write_text("old")
    first = await tools("bash", command="mkdir d; echo new > d/new.txt; rm old.txt; exit 3")
    assert first.error is not None
    assert [change.mapping() for change in first.report.changes] == [
        {"type": "DirectoryCreated", "path": "d"},
        {"type": "FileCreated", "path": "d/new.txt"},
        {"type": "FileDeleted", "path": "old.txt"},
    ]
    second = await tools("python_exec", code="open('d/new.txt', 'a').write('more')")
    assert [change.mapping() for change in second.report.changes] == [{"type": "FileModified", "path": "d/new.txt"}]
    assert second.report.changes_unknown == ""
    third = await tools("bash", command="cat d/new.txt", working_directory="d")
    assert third.report.changes == ()


async def test_a_command_that_begins_like_an_option_is_a_command(tools: Tools) -> None:
    assert "command not found" in text_of(await tools("bash", command="--version"))
    assert text_of(await tools("bash", command="-c 'echo x' || echo or")).startswith("or")


async def test_variables_are_the_operators_to_grant(tools: Tools) -> None:
    granted = {"CI": "1", "DEBUG_ME": "2", "ANYTHING": "3", "PYTHONHASHSEED": "0"}
    result = await tools("bash", command="env", env=granted)
    assert all(f"{name}={value}" in text_of(result) for name, value in granted.items())
    # So they are in the report, also if the program fails.
    reports = [result.report, (await tools("bash", command="exit 1", env=granted)).report]
    noted = [[(one.kind, *one.data.values()) for one in report.changes] for report in reports]
    assert noted == [[("EnvVarSet", *pair) for pair in granted.items()]] * 2
    for name in (
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "HOME", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "PYTHONPATH"),
        *("PYTHONSTARTUP", "NODE_OPTIONS", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "PERL5OPT", "RUBYOPT", "EDITOR"),
        *("SSH_ASKPASS", "DYLD_INSERT_LIBRARIES", "BASH_FUNC_ls%%", "HTTP_PROXY", "https_proxy", "PAGER"),
    ):
        result = await tools("bash", command="touch made", env={name: "x"})
        assert (code_of(result), result.report.changes) == ("environment", ()), name
    assert not (tools.workspace / "made").exists()


async def test_without_a_grant_no_variable_can_be_set(workspace: pathlib.Path) -> None:
    async with tools_of("execution", workspace) as tools:
        assert code_of(await tools("bash", command="true", env={"CI": "1"})) == "environment"


async def test_a_program_is_run_without_a_shell(tools: Tools) -> None:
    words = ["$HOME", "`id`", "a;b", "*", "", "-n", "x\ny"]
    result = await tools("run_command", argv=[sys.executable, "-c", "import sys; print(sys.argv[1:])", *words])
    assert text_of(result).splitlines()[0] == str(words)
    assert text_of(await tools("run_command", argv=["cat"], stdin="given")) == "given\n[exit code 0]"
    assert code_of(await tools("run_command", argv=["no-such-program-here"])) == "not_started"
    assert code_of(await tools("run_command", argv=["tr\0ue"])) == "validation"
    assert code_of(await tools("run_command", argv=[])) is not None


async def test_python_runs_in_the_project_s_own_interpreter(tools: Tools) -> None:
    assert text_of(await tools("python_exec", code="print(6 * 7)")) == "42\n[exit code 0]"
    failed = await tools("python_exec", code="raise SystemExit(4)")
    assert failed.report.exit_code == 4
    write_program(tools.workspace / ".venv" / "bin" / "python3", "#!/bin/sh\necho my own; cat\n")
    assert text_of(await tools("python_exec", code="the code")) == "my own\nthe code\n[exit code 0]"


async def test_code_with_half_a_character_is_refused(tools: Tools) -> None:
    for tool, name in (("bash", "command"), ("python_exec", "code")):
        result = await tools(tool, **{name: "echo \ud800"})
        assert result.error is not None
        assert result.error.category == "validation"


async def test_where_a_sandbox_holds_it_is_named_and_kept(workspace: pathlib.Path) -> None:
    outside = workspace.parent / "outside"
    outside.write_text("canary")
    async with tools_of("execution", workspace, sandbox={"level": "auto"}) as tools:
        result = await tools("bash", command=f"echo in > here; cat {outside}; echo x > {outside}; echo done")
        if str(result.report.sandbox).startswith("tier 0"):
            lacking(f"no sandbox is available here: {result.report.sandbox}")
        assert (workspace / "here").read_text() == "in\n"
        assert "canary" not in text_of(result)
        assert outside.read_text() == "canary"
        home = text_of(await tools("bash", command="echo $HOME")).splitlines()[0]
        assert home not in ("", os.environ.get("HOME"))
