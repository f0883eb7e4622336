"""The tutorials about retries and the cache, long conversations, replay, many tools, and consent."""

import contextlib
import io
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

import ripieno.testing
from ripieno.approvals import Approve
from ripieno.assembly import assemble
from ripieno.assembly.configuration import Places, load_configuration
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.descriptors import RetryPolicy
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.history import HISTORY
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import parse
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of
from tests.cli.conversations.test_ask import serving
from tests.descriptors.descriptor_examples import read_configuration
from tests.documentation.code_blocks import DOCUMENTATION, blocks, texts
from tests.documentation.test_first_pages import merged
from tests.support.command_line import PATIENCE, User
from tests.support.scripted_models import Person
from tests.support.users import Done

pytest_plugins = ["pytester"]

CONVERSATIONS = "tutorials/long-conversations"
#: Options of pytest inside of pytest.
PYTEST = ("-p", "no:cacheprovider", "-p", "no:xdist")
CONSENT = ("toml", "console", "", "", "", "", "console")
LARGE = ("toml", "toml", "text", "toml", "toml", "")
REPLAY = ("console", "python", "text", "", "console", "python", "python")


def test_retry_and_reuse(user: User) -> None:
    usual, weather = texts("tutorials/retry-and-reuse", "toml", "toml")
    assert (
        RetryPolicy(**{**tomllib.loads(usual)["retry"], "categories": ("timeout", "network", "quota")}) == RetryPolicy()
    )
    tables = {"retry": {"max_backoff": 30}, "ensembles": [tomllib.loads(weather)]}
    loaded = load_configuration(tables, places=user.places)
    assert loaded.failures == ()
    (ensemble,) = [one for one in loaded.ensembles if one.name == "weather"]
    (forecast,) = ensemble.invokers
    assert forecast.policy.retry == RetryPolicy(
        max_retries=5, initial_backoff=0.5, max_backoff=30, categories=("network",)
    )
    assert ensemble.discovered("other").policy.retry == RetryPolicy(max_retries=1, initial_backoff=0.5, max_backoff=30)
    assert (forecast.policy.cache, forecast.policy.repeatable) == (300, True)


def test_a_result_that_cannot_be_reused_is_a_problem(user: User) -> None:
    _, weather = texts("tutorials/retry-and-reuse", "toml", "toml")
    for old, new, message in (
        ("cache = 300", 'cache = 300\neffect = "write"', "a result of effect 'write' cannot be reused"),
        ("max_retries = 5,", "max_backoff = 1, initial_backoff = 2,", "initial_backoff is longer than max_backoff"),
        ("initial_backoff = 0.5", "max_retries = 2", "max_retries is given here and in retry"),
        ('["network"]', '["denied"]', "categories[0] must be one of"),
    ):
        tables = {"ensembles": [tomllib.loads(weather.replace(old, new))]}
        loaded = load_configuration(tables, places=user.places)
        assert message in "\n".join(map(str, loaded.failures)), old


def test_long_conversations() -> None:
    server, history, notes, program, printed = texts(CONVERSATIONS, "toml", "toml", "toml", "python", "")
    provided, problems = read_configuration(tomllib.loads(server))
    assert not problems
    assert provided is not None
    assert provided.providers["cellar"]["capabilities"]["context"] == 32768
    said, problems = read_configuration(tomllib.loads(history))
    assert not problems
    assert said is not None
    assert said.history.strategy == ("drop-oldest",)
    assert said.agents["reviewer"].history.strategy == ("sliding-window", "summarize")
    assert said.agents["reviewer"].history.tokens == 50_000
    ensemble, problems = read_ensemble(tomllib.loads(notes))
    assert not problems
    assert ensemble is not None
    assert ensemble.tokens == 20_000
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == printed


def test_every_key_of_a_history_has_an_entry() -> None:
    page = (DOCUMENTATION / f"{CONVERSATIONS}.rst").read_text(encoding="utf-8")
    for name in HISTORY.known:
        assert f"\n``{name}``\n" in page


def test_the_program_prints_what_the_page_says(user: User) -> None:
    _, program, printed, *_ = texts("tutorials/replay", *REPLAY)
    with user.python("-c", program) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, printed), err
    assert (user.workspace / "talk.jsonl").exists()


def test_the_test_passes_when_it_is_recorded_and_ever_after(pytester: pytest.Pytester) -> None:
    *_, commands, conftest, test = texts("tutorials/replay", *REPLAY)
    pytester.makeconftest(conftest)
    (pytester.path / "test_shouting.py").write_text(test)
    for line in commands.splitlines():
        pytester.runpytest_subprocess(*PYTEST, *line.split()[2:]).assert_outcomes(passed=1)
    # The function does not run again, as the page says.
    (pytester.path / "test_shouting.py").write_text(test.replace("text.upper()", "1 / 0"))
    pytester.runpytest_subprocess(*PYTEST).assert_outcomes(passed=1)


def test_testing_a_tool(pytester: pytest.Pytester) -> None:
    function, descriptor, conftest, conversation = texts("tutorials/test-a-tool", *["python"] * 4)
    words, *_ = (block.text for block in blocks("tutorials/write-a-tool") if block.kind == "toml")
    (pytester.path / "ensembles").mkdir()
    (pytester.path / "ensembles" / "words.toml").write_text(words)
    pytester.makeconftest(conftest)
    for name, text in (("functions", function), ("words", descriptor), ("conversation", conversation)):
        assert name in text.splitlines()[0]
        (pytester.path / f"test_{name}.py").write_text(text)
    pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio").assert_outcomes(passed=5)
    # What the text names: a function that reads, and no configuration of the user.
    reading = function.replace("[count_words])", '[count_words], policy=Policy(effect="read"))')
    reading = reading.replace("import asyncio", "import asyncio\nfrom ripieno.descriptors import Policy")
    (pytester.path / "test_functions.py").write_text(reading)
    places = "places=Places(configuration=tmp_path, state=tmp_path)"
    alone = descriptor.replace("workspace=tmp_path", f"workspace=tmp_path, {places}")
    alone = alone.replace("import asyncio", "import asyncio\nfrom ripieno.assembly.configuration import Places")
    (pytester.path / "test_words.py").write_text(alone)
    broken = conversation.replace("len(text.split())", "len(text)")
    (pytester.path / "test_conversation.py").write_text(broken)
    # The function with a bug fails, and the call that needs no approval is not denied.
    pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio").assert_outcomes(passed=3, failed=2)


def test_the_example_of_the_testing_package(pytester: pytest.Pytester) -> None:
    text = textwrap.dedent(str(ripieno.testing.__doc__).partition("::\n")[2].partition("\nThe model follows")[0])
    pytester.makepyfile(test_reading=text)
    pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio").assert_outcomes(passed=1)


# Many tools and long results.


async def test_searchable_tools_are_found_and_called_as_shown(tmp_path: pathlib.Path) -> None:
    ledger, over, shown, searched, reading, _ = texts("tutorials/large-tool-sets", *LARGE)
    (tmp_path / "ledger.toml").write_text(ledger)
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    tables: dict[str, Any] = {
        **tomllib.loads(over),
        **tomllib.loads(searched),
        "ensembles": {"paths": [str(tmp_path / "ledger.toml")], "enabled": ["ledger", "outputs"]},
        "limits": tomllib.loads(reading)["limits"],
    }
    lines = re.findall(r"^(\w+) +(\{.*\})$", shown, re.MULTILINE)
    said: list[tuple[str, Any]] = [(name, parse(arguments)) for name, arguments in lines]
    calls = [call(name, f"r{at}", **arguments) for at, (name, arguments) in enumerate(said)]
    model = model_of([*(turn("", calls=[one]) for one in calls), turn("{r1}")])
    async with assemble(tables, workspace=tmp_path, places=places, confirmer=Person(Approve())) as assembly:
        assert Offer.of(assembly.ensembles).names == ("balance", "read_output", "search_tools", "call_tool")
        conversation = await assembly.conduct("Book it", model=model)
    assert [one.name for one in conversation.canisters if isinstance(one, InvocationCanister)] == [
        "search_tools",
        "call_tool",
    ]
    assert conversation.text.strip() == shown.strip().splitlines()[-1]
    anthropic = assembly.loaded.providers["anthropic"]
    assert anthropic.capabilities_for("m")["tool_search"] is True


async def test_a_long_result_is_read_on_as_shown(tmp_path: pathlib.Path) -> None:
    *_, reading, line = texts("tutorials/large-tool-sets", *LARGE)
    places = Places(configuration=tmp_path / "configuration", state=tmp_path / "state")
    tables = tomllib.loads(reading)
    loaded = load_configuration(tables, places=places)
    assert loaded.failures == ()
    assert loaded.configuration.limits == Limits()
    assert "outputs" in [one.name for one in loaded.ensembles]
    work = tmp_path / "work"
    work.mkdir()
    (work / "long.txt").write_text("0123456789\n" * 20_000)
    tables["limits"]["output"] = "4 KiB"
    async with assemble(tables, workspace=work, places=places) as assembly:
        model = model_of([turn("", calls=[call("read_file", path="long.txt")]), turn("Done.")])
        conversation = await assembly.conduct("Read it", model=model)
    result = next(one for one in conversation.canisters if isinstance(one, ResultCanister))
    pattern = (
        re.escape(line.strip())
        .replace("2885125", r"\d+")
        .replace("2730", r"\d+")
        .replace('handle="…"', 'handle="[^"]+"')
    )
    assert re.search(pattern, result.text), result.text[40_000:50_000]


# Consent.

SCORE = """
[score]
name = "readme"
prompt = "Write a README."
[[turns]]
[[turns.calls]]
label = "written"
tool = "write_file"
arguments = { path = "README.md", content = "# House\\n" }
[[turns]]
text = "It says: {written}"
"""


def test_the_rules_are_rules(user: User, call: Callable[..., Done]) -> None:
    rules, *_ = texts("tutorials/consent", *CONSENT)
    user.configure(rules)
    assert merged(user, rules).configuration.confirmation.deny == ("io.*(path=secrets/**)", "execution.bash")
    done = call("doctor", "--policy")
    assert done.code == 0, done.err
    (written,) = [line for line in done.out.splitlines() if line.startswith("io.write_file ")]
    assert "depends" in written


def test_the_programs_say_what_the_page_says() -> None:
    _, _, asking, asked, pausing, paused, _ = texts("tutorials/consent", *CONSENT)
    names: dict[str, object] = {}
    for program, said in ((asking, asked), (pausing, paused)):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(program, "page", "exec"), names)
        assert out.getvalue() == said


def test_the_commands_go_from_one_to_the_next(user: User, call: Callable[..., Done], tmp_path: pathlib.Path) -> None:
    *_, commands = texts("tutorials/consent", *CONSENT)
    (tmp_path / "readme.toml").write_text(SCORE)
    with serving(Score.read(tmp_path / "readme.toml"), PROTOCOL) as url:
        user.configure(
            f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n[model]\ndefault = "house/small"\n'
        )
        said: list[str] = []
        for line in commands.splitlines():
            done = call(*shlex.split(line.removeprefix("$ ripieno ")))
            said.append(done.out)
            # The first run ends without an answer: a call waits.
            assert done.code == (1 if "ask" in line else 0), done.err
    assert "# House" in said[2]
    assert (user.workspace / "README.md").read_text() == "# House\n"
    assert said[-1].strip().startswith("It says: Wrote 8 bytes")
