"""The page about replay: its program prints what it says, and its test passes twice."""

import pathlib
import subprocess
import sys

import pytest

from tests.documentation.code_blocks import texts

pytest_plugins = ["pytester"]

KINDS = ("console", "python", "text", "", "python", "python")


def test_the_program_prints_what_the_page_says(tmp_path: pathlib.Path) -> None:
    _, program, printed, *_ = texts("tutorials/replay", *KINDS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert (tmp_path / "talk.jsonl").exists()


def test_the_test_passes_when_it_is_recorded_and_ever_after(pytester: pytest.Pytester) -> None:
    *_, conftest, test = texts("tutorials/replay", *KINDS)
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_shouting=test)
    options = ("-p", "no:cacheprovider", "-p", "no:xdist")
    pytester.runpytest_subprocess(*options, "--ripieno-record").assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
