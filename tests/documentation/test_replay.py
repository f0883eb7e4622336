"""The page about replay: its program prints what it says, and its test passes twice."""

import pytest

from tests.documentation.code_blocks import texts
from tests.support.command_line import PATIENCE, User

pytest_plugins = ["pytester"]

KINDS = ("console", "python", "text", "", "python", "python")


def test_the_program_prints_what_the_page_says(user: User) -> None:
    _, program, printed, *_ = texts("tutorials/replay", *KINDS)
    with user.python("-c", program) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, printed), err
    assert (user.workspace / "talk.jsonl").exists()


def test_the_test_passes_when_it_is_recorded_and_ever_after(pytester: pytest.Pytester) -> None:
    *_, conftest, test = texts("tutorials/replay", *KINDS)
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_shouting=test)
    options = ("-p", "no:cacheprovider", "-p", "no:xdist")
    pytester.runpytest_subprocess(*options, "--ripieno-record").assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
