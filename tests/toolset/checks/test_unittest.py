"""Tests of projects that have no pytest: Python's own unittest runs them, and its words are read."""

import os
import pathlib
import sys

import pytest

from ripieno.toolset.checks.unittest import read_unittest
from tests.toolset.bundled_tools import Tools, code_of, install_pytest, json_of, text_of, write_program

TESTS = '''
import sys
import unittest


class Case(unittest.TestCase):
    def test_good(self):
        print("nobody needs this")

    def test_bad(self):
        """With words about it."""
        print("before it failed")
        self.assertEqual(1, 2, "because")

    def test_error(self):
        raise RuntimeError("no such thing")

    @unittest.skip("later")
    def test_later(self): pass

    @unittest.expectedFailure
    def test_known(self): self.fail()

    def test_many(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)


class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("cannot begin")

    def test_never(self): pass
'''
GOOD = "import unittest\nclass Case(unittest.TestCase):\n    def test_good(self): pass\n"
COUNTS = ("passed", "failed", "errors", "skipped")
ENSEMBLE = "testing"


@pytest.fixture
def workspace(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine with Python, and without pytest."""
    programs = tmp_path / "programs"
    write_program(programs / "python3", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/nowhere")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def test_what_fails_is_told_as_of_other_runners(tools: Tools) -> None:
    (tools.workspace / "test_it.py").write_text(TESTS)
    result = await tools("run_tests")
    found = json_of(result)
    assert result.report.exit_code == found["exit_code"] == 1
    assert (found["framework"], found["outcome"]) == ("unittest", "failed")
    assert found["command"] == "python3 -m unittest discover --buffer"
    assert [found[one] for one in COUNTS] == [1, 2, 2, 2]
    failures = {one["name"]: one for one in found["failures"]}
    assert set(failures) == {
        "test_it.Case.test_bad",
        "test_it.Case.test_error",
        "test_it.Case.test_many (number=1)",
        "test_it.Broken.setUpClass",
    }
    bad = failures["test_it.Case.test_bad"]
    assert (bad["file"], bad["line"]) == ("test_it.py", 13)
    assert "1 != 2 : because" in bad["message"]
    assert "before it failed" in bad["message"]
    assert "no such thing" in failures["test_it.Case.test_error"]["message"]
    assert "cannot begin" in failures["test_it.Broken.setUpClass"]["message"]


async def test_some_tests_of_a_project(tools: Tools) -> None:
    (tools.workspace / "test_it.py").write_text(TESTS)
    for target in ("test_it.py::Case::test_good", "test_it.Case.test_good", "./test_it.py::Case::test_good"):
        found = json_of(await tools("run_tests", targets=[target]))
        assert [found[one] for one in COUNTS] == [1, 0, 0, 0]
        assert found["outcome"] == "passed"
    assert json_of(await tools("run_tests", targets=["test_it.py"]))["passed"] == 1
    found = json_of(await tools("run_tests", filter="Case.test_bad", fail_fast=True))
    assert [found[one] for one in COUNTS] == [0, 1, 0, 0]
    assert json_of(await tools("run_tests", filter="nothing of the kind"))["outcome"] == "no tests ran"
    found = json_of(await tools("run_tests", targets=["missing.py"]))
    assert (found["errors"], found["failures"][0]["name"]) == (1, "missing")


async def test_a_file_that_cannot_be_imported_is_an_error(tools: Tools) -> None:
    (tools.workspace / "test_it.py").write_text("import unittest\nimport nothing_of_the_kind\n")
    found = json_of(await tools("run_tests"))
    assert [found[one] for one in COUNTS] == [0, 0, 1, 0]
    assert found["failures"][0]["name"] == "test_it"
    assert "nothing_of_the_kind" in found["failures"][0]["message"]


async def test_folders_of_tests_are_found(tools: Tools) -> None:
    tests = tools.workspace / "tests"
    tests.mkdir()
    (tools.workspace / "it.py").write_text("x = 1\n")
    (tests / "test_it.py").write_text(f"import it\n{GOOD}")
    found = json_of(await tools("run_tests"))
    assert (found["passed"], found["command"]) == (1, "python3 -m unittest discover --buffer --start-directory tests")
    (tests / "__init__.py").write_text("")
    found = json_of(await tools("run_tests"))
    assert (found["passed"], found["command"]) == (1, "python3 -m unittest discover --buffer")
    (tools.workspace / "test_more.py").write_text(GOOD)
    assert json_of(await tools("run_tests"))["passed"] == 2
    # Two that are no parts of each other are no one run, and nothing is left out in silence.
    (tests / "__init__.py").unlink()
    result = await tools("run_tests")
    assert code_of(result) == "argument"
    assert "['.']" in text_of(result)
    for target in (".", "tests"):
        assert json_of(await tools("run_tests", targets=[target]))["passed"] == 1


async def test_a_project_set_up_for_pytest_is_left_to_it(tools: Tools) -> None:
    (tools.workspace / "test_it.py").write_text("def test_it(): pass\n")
    # Without unittest in the tests, there is nothing that it could run.
    result = await tools("run_tests")
    assert (code_of(result), "'pytest'" in text_of(result)) == ("no_program", True)
    (tools.workspace / "test_it.py").write_text(GOOD)
    assert json_of(await tools("run_tests"))["framework"] == "unittest"
    (tools.workspace / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    assert code_of(await tools("run_tests")) == "no_program"
    assert json_of(await tools("run_tests", framework="unittest"))["passed"] == 1
    install_pytest(tools.workspace)
    found = json_of(await tools("run_tests"))
    assert (found["framework"], found["passed"], found["also_possible"]) == ("pytest", 1, ["unittest"])


async def test_a_run_that_comes_to_nothing_is_a_fault(tools: Tools) -> None:
    (tools.workspace / "test_it.py").write_text(f"{GOOD}import os\nos._exit(3)\n")
    assert code_of(await tools("run_tests")) == "exit_code"


def test_what_older_and_newer_interpreters_write() -> None:
    rule, line = "=" * 70, "-" * 70
    text = f"""
F.u
{rule}
FAIL: test_bad (test_it.Case)
{line}
Traceback (most recent call last):
  File "/w/test_it.py", line 3, in test_bad
    self.fail()
AssertionError: None

{rule}
UNEXPECTED SUCCESS: test_known (test_it.Case.test_known)

{line}
Ran 3 tests in 0.000s

FAILED (failures=1, unexpected successes=1)
"""
    tally = read_unittest(text)
    assert tally is not None
    assert (tally.passed, tally.failed) == (1, 2)
    first, second = tally.failures
    assert (first.name, first.file, first.line) == ("test_it.Case.test_bad", "/w/test_it.py", 3)
    assert second.name == "test_it.Case.test_known"
    assert read_unittest("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n") is not None
    assert read_unittest("Traceback (most recent call last):\n") is None
