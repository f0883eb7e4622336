"""Tests of a project, run with its own tool; and what the reports of tools are made of."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.toolset.checks import diagnostics
from ripieno.toolset.checks.test_reports import MAX_FAILURES, read_cargo, read_go, read_jest, read_junit
from ripieno.toolset.checks.unittest import read_unittest
from tests.skips import lacking
from tests.toolset.bundled_tools import Tools, code_of, install_pytest, json_of, write_program

TESTS = """
import pytest
def test_good(): pass
def test_bad():
    left = 1
    assert left == 2, "because"
@pytest.mark.skip
def test_later(): pass
@pytest.fixture
def broken(): raise RuntimeError("no such thing")
def test_error(broken): pass
"""
ENSEMBLE = "testing"


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    """A project with a pytest of its own: that of these tests, without their plugins."""
    folder = tmp_path / "workspace"
    install_pytest(folder)
    (folder / "pyproject.toml").write_text("")
    (folder / "test_it.py").write_text(TESTS)
    return folder


async def test_failing_tests_are_a_result(tools: Tools) -> None:
    result = await tools("run_tests")
    found = json_of(result)
    assert result.report.exit_code == found["exit_code"] == 1
    assert (found["framework"], found["outcome"]) == ("pytest", "failed")
    assert [found[one] for one in ("passed", "failed", "errors", "skipped")] == [1, 1, 1, 1]
    bad, error = found["failures"]
    assert (bad["name"], bad["file"], bad["line"]) == ("test_it::test_bad", "test_it.py", 6)
    assert "because" in bad["message"]
    assert "no such thing" in error["message"]
    assert found["command"] == ".venv/bin/pytest -q --color=no --tb=short"
    # The report is nobody's business afterwards.
    assert not [name for name in os.listdir(tools.workspace) if name.endswith(".report")]


async def test_some_tests_of_a_project(tools: Tools) -> None:
    found = json_of(await tools("pytest", targets=["test_it.py::test_good"]))
    assert (found["passed"], found["failed"], found["outcome"]) == (1, 0, "passed")
    found = json_of(await tools("pytest", filter="good or bad", fail_fast=True))
    assert (found["passed"], found["failed"], found["errors"]) == (1, 1, 0)
    found = json_of(await tools("pytest", filter="nothing"))
    assert (found["exit_code"], found["outcome"]) == (5, "no tests ran")
    found = json_of(await tools("pytest", targets=["missing.py"]))
    assert (found["exit_code"], found["outcome"]) == (4, "no tests ran")
    assert "missing.py" in str(found)


async def test_targets_stay_in_the_project(tools: Tools) -> None:
    for target in ("-p", "--rootdir=/", "../x", "/etc/passwd", "\0", "../../x::y"):
        assert code_of(await tools("pytest", targets=[target])) in ("argument", "outside_workspace"), target
    assert code_of(await tools("pytest", filter="-p evil")) == "argument"
    assert code_of(await tools("pytest", directory="..")) == "outside_workspace"


async def test_a_report_that_is_none_is_a_fault(tools: Tools) -> None:
    own = tools.workspace / ".venv" / "bin" / "pytest"
    for script in (
        "echo broken; exit 3",
        'for a; do case $a in --junit-xml=*) ln -s /etc/passwd "${a#*=}";; esac; done; exit 1',
        'for a; do case $a in --junit-xml=*) mkfifo "${a#*=}";; esac; done; exit 1',
        "for a; do case $a in --junit-xml=*) echo '<!DOCTYPE a><a/>' > \"${a#*=}\";; esac; done; exit 1",
    ):
        own.write_text(f"#!/bin/sh\n{script}\n")
        assert code_of(await tools("pytest")) == "exit_code", script
        assert not [name for name in os.listdir(tools.workspace) if name.endswith(".report")]


async def test_what_a_project_is_made_for_is_found(tools: Tools) -> None:
    folder = tools.workspace / "made"
    folder.mkdir()
    (folder / "Makefile").write_text("build:\n\ttrue\n")
    result = await tools("run_tests", directory="made")
    assert code_of(result) == "no_tests"
    (folder / "Makefile").write_text("test:\n\t@echo made; false\n")
    if shutil.which("make"):
        found = json_of(await tools("run_tests", directory="made"))
        assert (found["command"], found["outcome"], found["stdout"]) == ("make test", "failed", "made")
    (folder / "package.json").write_text('{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}')
    assert json_of(await tools("run_tests", directory="made", framework="make"))["framework"] == "make"


async def test_jest_of_the_project(tools: Tools) -> None:
    if shutil.which("node") is None:
        lacking("node is not here")
    assert code_of(await tools("run_tests", framework="jest")) == "no_program"
    # What jest writes, without jest: the tool is the project's.
    cases = [
        {"status": "passed", "fullName": "a"},
        {"status": "failed", "fullName": "b c", "failureMessages": ["\x1b[31mexpected\x1b[0m"]},
        {"status": "pending", "fullName": "d"},
    ]
    files = [
        {"name": "/w/a.test.js", "status": "failed", "assertionResults": cases},
        {"name": "/w/b.test.js", "status": "failed", "message": "cannot parse", "assertionResults": []},
    ]
    (tools.workspace / "report").write_text(json.dumps({"testResults": files}))
    script = '#!/bin/sh\nfor a; do case $a in --outputFile=*) cp report "${a#*=}";; esac; done; exit 1\n'
    write_program(tools.workspace / "node_modules" / ".bin" / "jest", script)
    found = json_of(await tools("run_tests", framework="jest", filter="b"))
    assert [found[one] for one in ("passed", "failed", "errors", "skipped")] == [1, 1, 1, 1]
    assert found["failures"][0] == {"name": "b c", "file": "/w/a.test.js", "message": "expected"}
    assert "--testNamePattern=b" in found["command"]


def test_what_cargo_writes() -> None:
    text = """
running 3 tests
test tests::good ... ok
test tests::bad ... FAILED
test tests::later ... ignored

failures:

---- tests::bad stdout ----
thread 'tests::bad' panicked at src/lib.rs:12:9:
assertion `left == right` failed
  left: 1
 right: 2

failures:
    tests::bad

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
    tally = read_cargo(text)
    assert tally is not None
    assert (tally.passed, tally.failed, tally.skipped) == (5, 1, 1)
    failure = tally.mapping()["failures"][0]
    assert (failure["name"], failure["file"], failure["line"]) == ("tests::bad", "src/lib.rs", 12)
    assert "left: 1" in failure["message"]
    assert read_cargo("error: could not compile") is None


def test_what_go_writes() -> None:
    lines = """
{"Action":"run","Package":"it","Test":"TestBad"}
{"Action":"output","Package":"it","Test":"TestBad","Output":"    it_test.go:7: no\\n"}
{"Action":"fail","Package":"it","Test":"TestBad","Elapsed":0}
{"Action":"pass","Package":"it","Test":"TestGood"}
{"Action":"skip","Package":"it","Test":"TestLater"}
{"Action":"fail","Package":"it"}
{"Action":"output","Package":"broken","Output":"cannot build\\n"}
{"Action":"fail","Package":"broken"}
not json
"""
    tally = read_go(lines)
    assert tally is not None
    assert (tally.passed, tally.failed, tally.errors, tally.skipped) == (1, 1, 1, 1)
    first, second = tally.mapping()["failures"]
    assert (first["name"], first["file"], first["line"]) == ("it.TestBad", "it_test.go", 7)
    assert second["message"] == "cannot build"
    assert read_go("nothing") is None


def test_very_many_failures_are_bounded() -> None:
    cases = "".join(f'<testcase name="t{one}"><failure>{"x" * 5000}</failure></testcase>' for one in range(200))
    tally = read_junit(f"<testsuite>{cases}</testsuite>".encode())
    assert tally is not None
    told = tally.mapping()
    assert (told["failed"], len(told["failures"]), told["failures_left_out"]) == (200, MAX_FAILURES, 150)
    assert all(len(one["message"]) < 2100 for one in told["failures"])


READERS: tuple[Callable[[str], Any], ...] = (
    *(diagnostics.read_lines, diagnostics.read_typescript, diagnostics.read_ruff, diagnostics.read_eslint),
    *(diagnostics.read_pyright, diagnostics.read_cargo, read_cargo, read_go, read_unittest),
    *(
        lambda text: read_junit(text.encode(errors="surrogatepass")),
        lambda text: read_jest(text.encode(errors="surrogatepass")),
    ),
)
TEXTS = st.text(st.characters(), max_size=300)
KEYS = st.sampled_from(["testResults", "assertionResults", "status", "failureMessages", "Action", "Test", "messages"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner),
)
#: What unittest writes, in any order.
WORDS = [f"{'=' * 70}\n", f"{'-' * 70}\n", "FAIL: a (b.a)\n", "ERROR: a (b)", "Ran 3 tests in 1.0s\n\nOK (skipped=9)\n"]


@given(
    TEXTS
    | TEXTS.map(lambda text: f"<a>{text}</a>")
    | JSON.map(json.dumps)
    | st.lists(st.text(max_size=20) | st.sampled_from(WORDS), max_size=12).map("".join)
)
def test_no_output_brings_a_reader_down(text: str) -> None:
    for read in READERS:
        found = read(text)
        for one in found if isinstance(found, list) else [found] if found is not None else []:
            one.mapping()
    tally = read_unittest(text)
    assert tally is None or tally.passed >= 0
