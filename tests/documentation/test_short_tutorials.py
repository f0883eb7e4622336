"""The tutorials about retries and the cache, long conversations, replay, many tools, consent, own tools, and MCP."""

import contextlib
import io
import json
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ripieno.testing
from ripieno.approvals import Approve
from ripieno.assembly import assemble
from ripieno.assembly.configuration import load_configuration
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.controls import Limits
from ripieno.descriptors import RetryPolicy
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.history import HISTORY
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import parse
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.origins.mcp.settings import CONNECTION
from ripieno.storage.places import Places
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from ripieno.testing.wires import model_of
from tests.cli.conversations.test_ask import serving
from tests.descriptors.descriptor_examples import read_configuration
from tests.documentation.code_blocks import DOCUMENTATION, blocks, texts
from tests.documentation.test_first_pages import merged
from tests.support.command_line import BUNDLED, COMMAND, PATIENCE, ROOT, User
from tests.support.scripted_models import Person
from tests.support.users import Done

pytest_plugins = ["pytester"]

CONVERSATIONS = "tutorials/long-conversations"
#: Options of pytest inside of pytest.
PYTEST = ("-p", "no:cacheprovider", "-p", "no:xdist")
Call = Callable[..., Done]
TUTORIALS = ROOT / "documentation" / "tutorials"
CONNECTING = (TUTORIALS / "connect-mcp.rst").read_text(encoding="utf-8")
CONSENT = ("toml", "console", *[""] * 8, "console")
LARGE = ("toml", "toml", "text", "toml", "toml", "")
TESTING = (*["python"] * 4, "toml", "console")
REPLAY = ("console", "python", "text", "", "console", "python", "python")


def test_retry_and_reuse(user: User) -> None:
    usual, weather = texts("tutorials/retry-and-reuse", "toml", "toml")
    assert (
        RetryPolicy(**{**tomllib.loads(usual)["retry"], "categories": ("timeout", "network", "quota")}) == RetryPolicy()
    )
    tables = {"retry": {"max_backoff": 30}, "ensembles": [tomllib.loads(weather)]}
    loaded = load_configuration(tables, places=user.places)
    assert loaded.failures == ()
    (ensemble,) = [one for one in loaded.ensembles if one.name == "forecasts"]
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
    function, descriptor, conftest, conversation, _, _ = texts("tutorials/test-a-tool", *TESTING)
    words, *_ = (block.text for block in blocks("tutorials/write-a-tool") if block.kind == "toml")
    (pytester.path / "ensembles").mkdir()
    (pytester.path / "ensembles" / "words.toml").write_text(words)
    pytester.makeconftest(conftest)
    for name, text in (("functions", function), ("words", descriptor), ("conversation", conversation)):
        assert name in text.splitlines()[0]
        (pytester.path / f"test_{name}.py").write_text(text)
    pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio").assert_outcomes(passed=5)
    # What the text names: the traceback of a bug, and a function that reads.
    buggy = function.replace("return len(text.split())", "return len(text.split()) / 0")
    (pytester.path / "test_functions.py").write_text(buggy)
    tried = pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio")
    tried.assert_outcomes(passed=4, failed=1)
    tried.stdout.fnmatch_lines(["*Captured log call*", "*in count_words*", "ZeroDivisionError: division by zero"])
    reading = function.replace("[count_words])", '[count_words], policy=Policy(effect="read"))')
    reading = reading.replace("import asyncio", "import asyncio\nfrom ripieno.descriptors import Policy")
    (pytester.path / "test_functions.py").write_text(reading)
    broken = conversation.replace("len(text.split())", "len(text)")
    (pytester.path / "test_conversation.py").write_text(broken)
    # The function with a bug fails, and the call that needs no approval is not denied.
    pytester.runpytest_subprocess(*PYTEST, "-p", "no:asyncio").assert_outcomes(passed=3, failed=2)


def test_a_score_at_a_terminal(user: User) -> None:
    *_, score, ask = texts("tutorials/test-a-tool", *TESTING)
    user.ensemble("words", next(typed("toml")), folder=user.workspace / "ensembles")
    (user.workspace / "counting.toml").write_text(score)
    write, trust, ask = (line.removeprefix("$ ") for line in ask.splitlines())
    subprocess.run(write, shell=True, check=True, cwd=user.workspace)
    command = shlex.split(ask)[1:]
    # As the page says.
    assert "which is not offered" in user.call(*command).stdout
    assert user.call(*shlex.split(trust)[1:], "--yes").returncode == 0
    done = user.call(*command)
    assert (done.returncode, done.stdout) == (0, "I count.\nThe count is: 3 poem.txt\n"), done.stderr
    (user.workspace / "poem.txt").write_text("one two\n")
    done = user.call(*command)
    assert (done.returncode, "\nUnexpected: The answer does not contain '3 poem.txt'.\n" in done.stderr) == (1, True)


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
    (workspace := tmp_path / "workspace").mkdir()
    async with assemble(tables, workspace=workspace, places=places, confirmer=Person(Approve())) as assembly:
        assert Offer.of(assembly.ensembles).names == ("read_balance", "read_output", "search_tools", "call_tool")
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
    *programs, _ = texts("tutorials/consent", *CONSENT)[2:]
    names: dict[str, object] = {}
    for program, said in zip(programs[::2], programs[1::2], strict=True):
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
            assert done.code == (10 if "ask" in line else 0), done.err
    assert "# House" in said[2]
    assert (user.workspace / "README.md").read_text() == "# House\n"
    assert said[-1].strip().startswith("It says: Wrote 8 bytes")


# Writing a tool, and MCP: ``ripieno check`` has nothing to say of what is shown, and it works.


def typed(language: str, page: str = "write-a-tool") -> Iterator[str]:
    """The blocks of a language in a tutorial, as they would be typed."""
    return (block.text for block in blocks(f"tutorials/{page}") if block.kind == language)


@pytest.fixture
def written(user: User) -> User:
    """Somebody who has typed all of it."""
    for text in typed("toml"):
        found = re.search(r'^name = "(\w+)"', text, re.MULTILINE)
        assert found is not None
        user.ensemble(found[1], text)
    (module,) = typed("python")
    (user.configuration / "ensembles" / "dates.py").write_text(module)
    return user


def test_there_is_nothing_to_warn_of(call: Call, written: User) -> None:
    done = call("check", "--strict")
    assert (done.code, done.out) == (0, f"Checked {BUNDLED + 3} ensembles: 0 errors, 0 warnings.\n")


@pytest.mark.parametrize("argv", ['["./greet.sh"]', '["sh", "scripts/greet.sh"]'])
def test_a_relative_program_is_beside_its_file_or_an_argument_of_an_interpreter(
    call: Call, user: User, argv: str
) -> None:
    assert f"argv = {argv}" in (TUTORIALS / "write-a-tool.rst").read_text(encoding="utf-8")
    words = next(typed("toml"))
    words = words[: words.index("[invokers.arguments]")].replace('["wc", "-w", "--", "{path}"]', argv)
    file = user.ensemble("words", words)
    place = file.parent if "./" in argv else user.workspace / "scripts"
    place.mkdir(exist_ok=True)
    script = place / "greet.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    # Both run in the workspace.
    assert call("invoke", "words.measure_text").out == f"{user.workspace}\n"


def test_the_tools_work(call: Call, written: User) -> None:
    (written.workspace / "README.rst").write_text("four words of text\n")
    # The server of the third example is not installed: it is not required.
    measured = call("invoke", "words.measure_text", "path=README.rst")
    assert (measured.code, measured.out.split()) == (0, ["4", "README.rst"])
    assert call("invoke", "dates.add_days", "date=2026-02-27", "days=2").out == "2026-03-01\n"
    assert "use fewer days" in call("invoke", "dates.add_days", "date=2026-02-27", "days=99999999").err
    listed = call("tools")
    assert (listed.code, "measure_text" in listed.out) == (0, True), listed.err


def test_the_project_folder_needs_trust(call: Call, user: User) -> None:
    user.ensemble("words", next(typed("toml")), folder=user.workspace / "ensembles")
    assert "ripieno trust" in call("tools").err
    assert call("trust", "--yes").code == 0
    assert "measure_text" in call("tools").out


def test_the_mistake_that_is_shown_is_said_so(call: Call, written: User) -> None:
    file = written.configuration / "ensembles" / "words.toml"
    file.write_text(file.read_text().replace("effect", "efect"))
    (shown,) = (block for block in typed("text") if "efect" in block)
    assert shown.replace("/home/ada/.config/ripieno/ensembles/words.toml", str(file)) in call("check").out


def test_the_first_server_needs_nothing_but_its_package(call: Call, user: User) -> None:
    text = next(typed("toml", "connect-mcp"))
    assert "env:" not in text
    user.ensemble("time", text)
    done = call("check", "--no-import")
    assert (done.code, done.out) == (0, f"Checked {BUNDLED + 1} ensembles: 0 errors, 0 warnings.\n")
    assert "~/.config/ripieno/ensembles/time.toml" in CONNECTING
    assert "ripieno invoke time.get_current_time timezone=Europe/Vienna" in CONNECTING


def test_what_is_served_can_be_listed(call: Call, user: User) -> None:
    found = [block.text for block in blocks("tutorials/serve-mcp")]
    (text,) = [block for block in found if 'name = "served"' in block]
    (commands,) = [block for block in found if "--ensemble served" in block]
    places = {name: value for name, value in user.environment().items() if re.match("RIPIENO_|PYTHONPATH", name)}
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in places.items())
    text = text.replace('"ripieno"', ", ".join(map(json.dumps, COMMAND)))
    user.ensemble("served", f"{text}environment = {{ {table} }}\n")
    (user.workspace / "README.rst").write_text("A title\n")
    listing, reading = (shlex.split(line)[2:] for line in commands.strip().splitlines())
    assert "served__read_file" in call(*listing).out
    assert call(*reading, "--yes").out.startswith("A title")


def test_every_key_of_a_connection_is_in_the_tutorial() -> None:
    told = re.findall(r"^``(\w+)``$", CONNECTING.partition("The keys of")[2].partition("Two timeouts")[0], re.MULTILINE)
    assert told == ["origin", *CONNECTION.known]


@pytest.mark.parametrize("name", ["connect-mcp", "import-mcp", "pin-servers", "serve-mcp"])
def test_the_readme_leads_to_every_tutorial_about_mcp(name: str) -> None:
    assert (TUTORIALS / f"{name}.rst").exists()
    assert f"``{name}.rst``" in (ROOT / "README.rst").read_text(encoding="utf-8")


READ_AND_EDITED = """
[score]
name = "editing"
[[turns]]
calls = [{ tool = "read_file", arguments = { path = "a.txt" } }]
[[turns]]
calls = [{ tool = "edit_file", arguments = { path = "a.txt", old_content = "one", new_content = "two" } }]
[[turns]]
text = "Done."
"""


def test_files_that_have_to_be_read_first(user: User) -> None:
    include, first = (block.text for block in blocks("tutorials/files-and-undo") if block.kind == "toml")
    user.configure(f"{include}\n{first}")
    (user.workspace / "a.txt").write_text("one\n")
    edit = ("invoke", "--yes", "file_write.edit_file", "path=a.txt")
    done = user.call(*edit, "old_content=one", "new_content=two")
    assert done.returncode != 0
    assert "'a.txt' has not been read in this conversation." in done.stderr + done.stdout
    assert (user.workspace / "a.txt").read_text() == "one\n"
    # The ensemble with a configuration has the tool that io has, too; what io reads counts as read.
    score = user.workspace / "score.toml"
    score.write_text(READ_AND_EDITED)
    assert user.call("check").returncode == 0
    offered = user.call("tools").stdout
    assert ("file_write.write_file" in offered, "io.write_file" in offered, "io.read_file" in offered) == (1, 0, 1)
    done = user.call("ask", "-m", f"score:{score}", "--autonomous", "Edit it.")
    assert done.returncode == 0, done.stderr
    assert (user.workspace / "a.txt").read_text() == "two\n"
