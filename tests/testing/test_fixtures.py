"""The fixtures for authors of plugins and applications, as pytest runs them in a project of their own."""

import importlib

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["ripieno.testing.fixtures"]\n'
TEST = """
import asyncio
import ripieno
from ripieno.testing import call, turn

RAN = []

def look(name: str) -> str:
    "Looks at something."
    RAN.append(name)
    return f"{name} is there"

def test_it(score, cassette):
    async def converse():
        model = score([turn("I look.", calls=[call("look", "one", name="the sea")]), turn("{one}")])
        mine = ripieno.Ensemble.of_functions("mine", [look])
        played = cassette("cassettes/sea.jsonl")
        execution = ripieno.Execution(rules=ripieno.Rules(approve=("mine.*",)))
        return await played.conduct(model, QUESTION, ensembles=[mine], execution=execution)
    conversation = asyncio.run(converse())
    print(len(RAN), "ran")
    assert conversation.text == EXPECTED
"""


def write(pytester: pytest.Pytester, question: str = "What is there?", expected: str = "the sea is there") -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_mine=f"QUESTION, EXPECTED = {question!r}, {expected!r}\n{TEST}")


OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:asyncio", "-rP")
#: What a run in this process imports it also forgets, and a class that comes back is another one: these are here first.
IMPORTED = (
    "anthropic",
    "ripieno.testing.cassettes.record",
    "ripieno.testing.cassettes.replay",
    "ripieno.origins",
    "ripieno.models.protocols.anthropic",
    "ripieno.models.protocols.gemini",
    "ripieno.models.protocols.openai_chat",
    "ripieno.models.protocols.openai_responses",
    "ripieno.schemas.validator",
    "ripieno.schemas.functions",
    "ripieno.testing.fixtures",
)
for name in IMPORTED:
    importlib.import_module(name)


def test_a_cassette_is_recorded_on_request_and_replayed_ever_after(pytester: pytest.Pytester) -> None:
    write(pytester)
    missing = pytester.runpytest_subprocess(*OPTIONS)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*There is no cassette *sea.jsonl. To record it, run pytest --ripieno-record.*"])
    recorded = pytester.runpytest_inprocess(*OPTIONS, "--ripieno-record")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(["1 ran"])
    file = pytester.path / "cassettes" / "sea.jsonl"
    assert file.exists()
    before = file.read_bytes()
    for options in ((), ("--ripieno-record",)):
        replayed = pytester.runpytest_inprocess(*OPTIONS, *options)
        replayed.assert_outcomes(passed=1)
        replayed.stdout.fnmatch_lines(["0 ran"])
    assert file.read_bytes() == before


def test_a_cassette_that_no_longer_fits_fails_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester)
    with monkeypatch.context() as patch:
        patch.setenv("RIPIENO_RECORD", "1")
        pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)
    write(pytester, question="What was there?")
    failed = pytester.runpytest_inprocess(*OPTIONS)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*ReplayDivergence*step 1: input*"])


def test_what_a_failing_test_recorded_is_set_aside(pytester: pytest.Pytester) -> None:
    write(pytester, expected="nothing")
    pytester.runpytest_inprocess(*OPTIONS, "--ripieno-record").assert_outcomes(failed=1)
    assert [path.name for path in (pytester.path / "cassettes").iterdir()] == ["sea.jsonl.failed"]
