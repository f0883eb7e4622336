"""``ripieno ask`` and ``ripieno chat``, against a rehearsed model over real HTTP."""

import contextlib
import json
import pathlib
import signal
import tomllib
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from ripieno.cli.common import exit_codes
from ripieno.models import Protocol
from ripieno.models.protocols.anthropic import PROTOCOL as MESSAGES
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from ripieno.models.protocols.openai_responses import PROTOCOL as RESPONSES
from ripieno.servers.http.server import serve
from ripieno.testing.rehearsal.server import base_url, create_application
from ripieno.testing.scores import Score
from tests.support.command_line import PATIENCE, Screen, User
from tests.support.live_processes import living

PROTOCOLS = {"anthropic": MESSAGES, "openai-chat": CHAT, "openai-responses": RESPONSES}
READING = """
[score]
name = "reading"
prompt = "What is in it?"
[[turns]]
reasoning = "I should look."
text = "I look."
calls = [{ tool = "read_file", arguments = { path = "a.txt" }, label = "a" }]
[[turns]]
expect = ["a"]
text = "It says {a.line:1}."
"""
WRITING = """
[score]
name = "writing"
[[turns]]
text = "I write."
calls = [{ tool = "write_file", arguments = { path = "b.txt", content = "written" }, label = "b" }]
[[turns]]
on_error = "b"
text = "I could not: {b.error}"
[[turns]]
text = "The end."
"""
TWICE = """
[score]
name = "twice"
continues = true
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "b.txt", content = "one" } }]
[[turns]]
text = "The first end."
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "b.txt", content = "two" } }]
[[turns]]
text = "The second end."
"""
BOTH = """
[score]
name = "both"
[[turns]]
calls = [
    { tool = "write_file", arguments = { path = "b.txt", content = "one" } },
    { tool = "write_file", arguments = { path = "c.txt", content = "two" } },
]
[[turns]]
text = "Both."
"""
TALKING = '[score]\nname = "talking"\ncontinues = true\n[[turns]]\ntext = "First."\n[[turns]]\ntext = "Second."\n'
SLOW = """
[score]
name = "slow"
continues = true
[[turns]]
pace = 20
text = "This takes its time, and more time than anybody has to wait for the end of it."
[[turns]]
text = "Better."
"""
WAITING = '[score]\nname = "waiting"\n[[turns]]\ntext = "I wait."\ncalls = [{ tool = "wait_long" }]\n'
CUT = '[score]\nname = "cut"\n[[turns]]\ntext = "And then"\nfinish = "length"\n'
BROKEN = '[score]\nname = "broken"\n[[turns]]\ncalls = [{ tool = "break_down" }]\n'


@contextlib.contextmanager
def serving(score: Score, protocol: Protocol) -> Iterator[str]:
    """Rehearses a score in a thread, which starts sooner than a process; gives its base URL."""
    server = serve(create_application(score, [protocol]))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as url:
        yield base_url(url, protocol)


@pytest.fixture
def served(user: User, request: pytest.FixtureRequest) -> Iterator[str]:
    """The score of the test's parameter is rehearsed, and configured as the default model. Its base URL.

    The workspace has a file to read.
    """
    (user.workspace / "a.txt").write_text("alpha\nbeta\n")
    name, _, named = str(request.param).partition(" ")
    text = next(
        one for one in (READING, WRITING, TWICE, BOTH, TALKING, SLOW, WAITING, CUT, BROKEN) if f'name = "{name}"' in one
    )
    protocol = PROTOCOLS[named or "openai-chat"]
    with serving(Score.of(tomllib.loads(text)), protocol) as url:
        user.configure(
            f'[model]\ndefault = "rehearsed/x"\n[providers.rehearsed]\nprotocol = "{protocol.name}"\n'
            f'base_url = "{url}"\n'
            '[agents.reader]\ninstructions = "Read."\ntools = ["io.list_*"]\n'
        )
        yield url


def plays(score: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("served", [score], indirect=True)


@pytest.mark.parametrize(
    "served", ["reading openai-chat", "reading anthropic", "reading openai-responses"], indirect=True
)
def test_the_answer_streams_and_notes_stand_beside_it(user: User, served: str) -> None:
    done = user.call("ask", "What is in it?")
    assert (done.returncode, done.stdout) == (0, "I look.\nIt says alpha.\n")
    lines = done.stderr.splitlines()
    assert '> io.read_file {"path":"a.txt"} (early)' in lines
    assert [line for line in lines if line.startswith("< io.read_file (") and line.endswith("ms, early) alpha ...")]
    quiet = user.call("ask", "-", "--quiet", text="What is in it?")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, done.stdout, "")


@plays("talking anthropic")
def test_no_sdk_is_imported_to_ask(user: User, served: str) -> None:
    program = (
        "import sys\nfrom ripieno.cli import main\n"
        "assert main(['ask', 'Hi.']) == 0\n"
        "assert not {'anthropic', 'openai', 'google', 'mcp', 'httpx2', 'pydantic', 'starlette'} & sys.modules.keys()"
    )
    with user.python("-c", program, PYTHONSAFEPATH="1") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "First.\n"), err


def test_a_pipe_is_added_to_the_prompt(user: User) -> None:
    (user.workspace / "talking.toml").write_text(TALKING)
    command = ("ask", "-m", "score:talking.toml")
    for arguments, text, prompt in (
        (["Summarise this."], "one\ntwo\n", "Summarise this.\n\none\ntwo"),
        ([], "whole\n", "whole"),
        (["Alone."], "", "Alone."),
    ):
        done = user.run(*command, "--record", f"{prompt[:5]}.jsonl", *arguments, text=text)
        assert (done.returncode, done.stdout) == (0, "First.\n"), done.stderr
        assert json.dumps(prompt) in (user.workspace / f"{prompt[:5]}.jsonl").read_text()
    nothing = user.run(*command)
    assert (nothing.returncode, "Missing argument 'PROMPT'" in nothing.stderr) == (exit_codes.INPUT, True)


@plays("reading")
def test_only_the_tools_that_are_wanted_are_offered(user: User, served: str) -> None:
    for arguments in (["--tools", "io.list_*"], ["--agent", "reader"]):
        done = user.call("ask", *arguments, "What is in it?")
        assert (done.returncode, done.stderr) == (0, "")
        assert "'read_file', which is not offered. Offered: list_directory." in done.stdout


def test_a_score_is_a_model_for_the_users_own_tools(user: User, greeting: str) -> None:
    user.ensemble("greeting", greeting)
    user.configure('[ensembles]\ninclude = ["greeting"]\n')
    file = user.workspace / "mine.toml"
    file.write_text(
        '[score]\nname = "mine"\n[[turns]]\n'
        'calls = [{ tool = "say_hello", arguments = { name = "Ada" }, label = "a" }]\n'
        '[[turns]]\ncalls = [{ tool = "write_file", arguments = { path = "b", content = "{a}" }, label = "b" }]\n'
        '[[turns]]\nexpect = ["b"]\ntext = "It says {a.line:1}."\n'
        '[expect]\nanswer = ["{a.line:1}", "bye"]\n'
    )
    waiting = user.call("ask", "--defer", "-m", "score:mine.toml", "Hello")
    assert "\n< greeting.say_hello (" in waiting.stderr
    (conversation,) = [line.split()[-1] for line in waiting.stderr.splitlines() if line.startswith("To continue:")]
    # The conversation continues with the same file, whatever the folder is.
    assert user.call("approvals", "approve", conversation).returncode == 0
    resumed = user.call("resume", conversation)
    assert (resumed.returncode, resumed.stdout) == (exit_codes.REFUSED, "It says hello -- Ada.\n"), resumed.stderr
    assert resumed.stderr.endswith("Unexpected: The answer does not contain 'bye'.\n")
    for name, why in (("./no.toml", "no.toml: error: it cannot be read"), ("no", "no score named 'no'. Known: demo,")):
        absent = user.call("ask", "-m", f"score:{name}", "Hello")
        assert (absent.returncode, why in absent.stderr) == (exit_codes.INPUT, True), absent.stderr


EXPECTING = """
[score]
name = "expecting"
[expect]
answer = "{a.line:1}"
results.a = "alpha"
files."a.txt" = "{a}"
[[turns]]
calls = [{ tool = "read_file", arguments = { path = "a.txt" }, label = "a" }]
[[turns]]
expect = ["a"]
text = "It says {a.line:1}."
"""


@pytest.mark.parametrize(
    ("old", "new", "unexpected"),
    [
        ("", "", []),
        ('"{a}"', '["{a}", "gamma"]', ["Unexpected: a.txt does not contain 'gamma'."]),
        ('"alpha"', '"gamma"', ["Unexpected: The result 'a' does not contain 'gamma'."]),
        ('files."a.txt"', 'files."b"', ["Unexpected: b cannot be read: it is not an ordinary file."]),
        ('tool = "read_file"', 'tool = "read_it"', None),
        ('path = "a.txt"', 'path = "c.txt"', None),
        ("[[turns]]\ncalls", '[[expect.programs]]\nargv = ["touch", "c"]\n[[turns]]\ncalls', []),
        # Without the table, only turns are compared.
        (EXPECTING[EXPECTING.index("[expect]") : EXPECTING.index("[[turns]]")], "", []),
    ],
)
def test_what_a_score_expects_is_compared(old: str, new: str, unexpected: list[str] | None, user: User) -> None:
    (user.workspace / "a.txt").write_text("alpha\nbeta\n")
    (user.workspace / "b").mkdir()
    (user.workspace / "mine.toml").write_text(EXPECTING.replace(old, new, 1))
    done = user.call("ask", "--quiet", "-m", "score:mine.toml", "Hello")
    lines = [line for line in done.stderr.splitlines() if line.startswith("Unexpected: ")]
    if unexpected is None:
        assert done.stdout.startswith("Turn ")
        unexpected = lines
        assert unexpected[0] == "Unexpected: The score was not played to its end. Its last answer has the reason."
    assert (done.returncode, lines) == (exit_codes.REFUSED if unexpected else 0, unexpected), done.stderr
    # Programs of a score are the demo's business.
    assert ("Not compared: the programs under [expect]" in done.stderr) == ("argv" in new)
    assert not (user.workspace / "c").exists()


@plays("cut")
def test_an_answer_that_was_cut_off_is_no_good_end(user: User, served: str) -> None:
    done = user.call("ask", "Tell me.")
    assert (done.returncode, done.stdout) == (exit_codes.UNANSWERED, "And then\n")
    assert exit_codes.UNANSWERED == 12
    assert "'length'" in done.stderr


@plays("reading")
def test_a_limit_has_an_own_exit_code(user: User, served: str) -> None:
    with (user.configuration / "config.toml").open("a") as file:
        file.write("[limits]\nturns = 1\n")
    assert user.call("ask", "What is in it?").returncode == exit_codes.LIMIT == 11


@plays("both")
def test_always_counts_for_the_other_calls_of_the_answer(user: User, served: str) -> None:
    with Screen(user, "ask", "Write both.") as screen:
        screen.wait_for("a: always allow io.write_file in this conversation")
        screen.type("a\n")
        # A second question would wait for its answer.
        screen.wait_for("Both.")
        assert screen.end() == 0
    assert [(user.workspace / name).read_text() for name in ("b.txt", "c.txt")] == ["one", "two"]


@plays("talking")
def test_an_endpoint_that_refuses(user: User, served: str) -> None:
    user.configure(f'[providers.rehearsed]\nprotocol = "openai-chat"\nbase_url = "{served}/elsewhere"\n')
    done = user.call("ask", "-m", "rehearsed/x", "Hello")
    assert (done.returncode, done.stdout) == (exit_codes.PROVIDER, "")
    assert "HTTP 404" in done.stderr
    assert "base_url" in done.stderr


@plays("broken")
def test_a_tool_with_a_bug_ends_the_run(user: User, served: str) -> None:
    file = user.ensemble(
        "mine",
        '[ensemble]\nname = "mine"\nmodule = "./mine.py"\n'
        '[[invokers]]\nname = "break_down"\ndescription = "x"\neffect = "none"\n',
    )
    (file.parent / "mine.py").write_text("def break_down(context, arguments): return 1 / 0\n")
    done = user.call("ask", "Go.")
    assert done.returncode == exit_codes.REFUSED
    assert "mine.break_down" in done.stderr
    assert done.stderr.count("! mine.break_down: The tool failed with ZeroDivisionError: division by zero") == 1
    assert f"failed: ZeroDivisionError: division by zero, at {file.parent / 'mine.py'}:1\n" in done.stderr
    assert done.stderr.endswith("For the traceback, run it again with --debug.\n")
    assert "Traceback" not in done.stderr


@plays("writing")
def test_nobody_to_ask_means_no(user: User, served: str) -> None:
    done = user.run("ask", "Write it.")
    # The answer is there, and a script notices that a call was not allowed.
    assert done.returncode == exit_codes.DENIED == 13
    assert done.stdout.startswith("I write.\nI could not: ")
    assert "? io.write_file wants to run (its effect is write)" in done.stderr
    lines = done.stderr.splitlines()
    said = lines.index(
        "! Denied, because there is no terminal to ask you at: io.write_file "
        'path="b.txt" mode="overwrite" content="written" create_directories=true'
    )
    assert lines[said + 1] == (
        "  To answer later, run it again with --defer, then: ripieno approvals list. To allow each call of it: "
        f'approve = ["io.write_file"] under [confirmation], in {user.configuration / "config.toml"}'
    )
    assert not (user.workspace / "b.txt").exists()


@plays("writing")
@pytest.mark.parametrize(("typed", "written"), [("y\n", True), ("\n", False)])
def test_at_a_terminal_somebody_is_asked_after_what_was_said(
    user: User, served: str, typed: str, written: bool
) -> None:
    with Screen(user, "ask", "Write it.") as screen:
        screen.wait_for("I write.\r\n")
        screen.wait_for("io.write_file wants to run.")
        screen.wait_for("Effect: write. Asks because its effect is write.")
        screen.wait_for('| {"content":"written","create_directories":true,')
        screen.wait_for("Allow it?")
        screen.type(typed)
        screen.wait_for("The end." if written else "I could not:")
        assert screen.end() == 0
    assert (user.workspace / "b.txt").exists() is written


def test_without_a_model_the_command_itself_is_shown(user: User) -> None:
    chat = user.call("chat")
    assert (chat.returncode, "  ripieno chat -m PROVIDER/MODEL" in chat.stderr) == (exit_codes.INPUT, True)
    assert "ripieno ask -m" not in chat.stderr
    assert 'protocol = "openai-chat"' in chat.stderr


@plays("waiting")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_tools_too(user: User, served: str, tmp_path: pathlib.Path, number: signal.Signals) -> None:
    with living(tmp_path / "alive") as alive:
        user.ensemble(
            "mine",
            '[ensemble]\nname = "mine"\n[[invokers]]\nname = "wait_long"\ndescription = "x"\neffect = "none"\n'
            '[invokers.invocable]\norigin = "command"\nargv = ["sh", "-c", "exec 9>$ALIVE; sleep 60"]\n'
            f'environment = {{ ALIVE = "{alive.path}" }}\n',
        )
        with user.start("ask", "Wait.") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.close()
            for line in process.stderr:
                if "> mine.wait_long" in line:
                    break
            while not alive.anybody:
                assert process.poll() is None
            process.send_signal(number)
            assert process.wait(PATIENCE) == exit_codes.SIGNAL + number
        assert alive.all_gone(5)


@pytest.mark.parametrize("command", [["chat"], ["tools"]])
def test_a_signal_ends_a_start(user: User, tmp_path: pathlib.Path, command: list[str]) -> None:
    user.configure('[model]\ndefault = "ollama/x"\n')
    with living(tmp_path / "alive") as alive:
        user.ensemble(
            "mute",
            '[ensemble]\nname = "mute"\n[connection]\norigin = "mcp"\ntransport = "stdio"\n'
            'command = ["sh", "-c", "exec 9>$ALIVE; sleep 60"]\n'
            f'environment = {{ ALIVE = "{alive.path}" }}\n',
        )
        with user.start(*command) as process:
            while not alive.anybody:
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == exit_codes.SIGNAL + signal.SIGTERM
        assert alive.all_gone(5)


@plays("talking")
def test_a_chat_goes_on_with_what_was_said(user: User, served: str) -> None:
    done = user.call("chat", text="/go\nHello\n/go\n\n/tools\nAnd?\n/help\n/nothing\n/new\nHello\n/exit\nno\n")
    assert (done.returncode, done.stdout) == (0, "First.\nSecond.\nFirst.\n")
    assert done.stderr.count("Nothing waits for an answer here.\n") == 2
    assert "io.read_file (read): " in done.stderr
    assert "/exit" in done.stderr
    assert "Unknown command /nothing" in done.stderr


def test_a_chat_survives_an_endpoint_that_fails(user: User) -> None:
    user.configure('[providers.gone]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\nretries = 0\n')
    done = user.call("chat", "-m", "gone/x", text="Hello\nHello?\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("Nothing answers at http://127.0.0.1:9/v1") == 2


@plays("slow")
def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(user: User, served: str) -> None:
    with Screen(user, "chat") as screen:
        screen.wait_for("you: ")
        screen.type("Hello\n")
        screen.wait_for("This takes its time")
        screen.type("\x03")
        screen.wait_for("(stopped)")
        screen.wait_for("you: ")
        screen.insist("\x03", "to end: /exit or Ctrl-D")
        screen.type("/exit\n")
        assert screen.end() == 0


@plays("writing")
def test_a_chat_asks_and_can_be_stopped_at_the_question(user: User, served: str) -> None:
    with Screen(user, "chat") as screen:
        screen.wait_for("you: ")
        screen.type("Write it.\n")
        screen.wait_for("Allow it?")
        screen.type("\x03")
        screen.wait_for("(stopped)")
        screen.wait_for("you: ")
        screen.type("Write it.\n")
        # A request for help is no answer.
        for asked, shown in (("?", "is advice for the model."), ("/tools", "are for the prompt of ripieno chat.")):
            screen.wait_for("Allow it?")
            screen.type(f"{asked}\n")
            screen.wait_for(shown)
        screen.wait_for("Allow it?")
        screen.type("y\n")
        screen.wait_for("The end.")
        screen.wait_for("you: ")
        screen.type("\x04")
        assert screen.end() == 0
    assert (user.workspace / "b.txt").read_text() == "written"


@plays("twice")
def test_what_a_chat_allows_is_listed_and_taken_back(user: User, served: str) -> None:
    with Screen(user, "chat") as screen:
        screen.wait_for("you: ")
        screen.type("Write it.\n")
        screen.wait_for("a: always allow io.write_file in this conversation")
        screen.type("?\n")
        screen.wait_for("Later calls of io.write_file with any arguments")
        screen.wait_for("Allow it?")
        screen.type("a\n")
        screen.wait_for("The first end.")
        for line, answer in (
            ("/allowed", "1. io.write_file with any arguments"),
            ("/revoke 2", "/revoke takes a number of this list, not '2':"),
            ("/revoke 1", "Taken back: io.write_file with any arguments."),
            ("/allowed", "Nothing is allowed without a question here."),
        ):
            screen.wait_for("you: ")
            screen.type(f"{line}\n")
            screen.wait_for(answer)
        screen.wait_for("you: ")
        screen.type("Once more.\n")
        screen.wait_for("Allow it?")
        screen.type("n\n")
        screen.wait_for("The second end.")
        screen.wait_for("you: ")
        screen.type("/exit\n")
        assert screen.end() == 0
    assert (user.workspace / "b.txt").read_text() == "one"
    assert "  revoked: io.write_file with any arguments\n" in user.run("journal", "show").stdout
    found = user.run("journal", "search", "io.write_file with", "--stage", "revoked")
    assert (found.returncode, found.stdout.count("  revoked  ")) == (0, 1), found


@plays("talking")
def test_pasted_lines_are_one_message(user: User, served: str) -> None:
    with Screen(user, "chat") as screen:
        screen.wait_for("you: ")
        screen.type("\x1b[200~Hello\n\nWhat is this?\n\x1b[201~")
        screen.type("\n")
        screen.wait_for("First.")
        screen.wait_for("you: ")
        screen.type("/exit\n")
        assert screen.end() == 0
        assert "Second." not in screen.text
