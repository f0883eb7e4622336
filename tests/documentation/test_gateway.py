"""The tutorials about the gateway and their programs, run against a real gateway."""

import ast
import contextlib
import http.client
import json
import pathlib
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from ripieno.conducting.observers import conventions
from ripieno.descriptors import GatewayDescriptor
from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.testing import call, turn
from ripieno.testing.scores import Score
from ripieno.testing.scores.turns import Turn
from tests.cli.conversations.test_ask import serving as rehearsing
from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.command_line import PATIENCE, ROOT, User, wait_for

EXAMPLES = DOCUMENTATION / "examples" / "gateway"
SERVING = r"Serving (.*) at http://[^/]*:([0-9]+)/v1, until Ctrl-C\.[^\n]*\n"
KEY = "a-key-of-many-letters"
CODEX = (
    *("text", "console", "toml", "toml", "console", *["toml"] * 3, "console", "toml", "text", "toml"),
    *("console", "console", ""),
)
TOOLS = (
    *("console", "console", "python", "text", "console", "toml", "toml", "console", "toml"),
    *("console", "toml", "console", *["python"] * 4),
)
DEPLOYING = ("toml", "console", "ini", "toml", "console", "dockerfile", "nginx", "text", "toml", "json")
#: The score that the page prints.
LOOKING = texts("tutorials/your-tools-behind-an-api", *TOOLS)[5]


def mixed(tool: str, **arguments: Any) -> list[Turn]:
    """A turn that calls a tool of the gateway and one of the client, and one that quotes both."""
    calls = [call("list_directory", "files", path="."), call(tool, "theirs", **arguments)]
    return [turn(calls=calls), turn("{files}; {theirs}")]


WEATHER = mixed("get_weather", city="Wien")
COUNT = mixed("count", file="notes.txt", what="words")
WRITING = [turn(calls=[call("write_file", "written", path="a.txt", content="one")]), turn("{written}")]
#: A call that is written as text, as small models do, and one of a tool in a namespace.
STRAY = [
    turn('I look.\n<tool_call>\n{{"name": "exec_command", "arguments": {{"cmd": "ls"}}}}\n</tool_call>'),
    turn(calls=[call("mcp__notes__read_file", path="notes.txt")]),
]
SEARCHING = [turn(calls=[call("search", "found", query="strings")]), turn("It says: {found.line:1}", expect=["found"])]
WEB = """
[ensemble]
name = "web"
description = "Searches the web"
[[invokers]]
name = "search"
description = "Searches the web."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "Found: {query}"]
[invokers.arguments]
type = "object"
required = ["query"]
[invokers.arguments.properties.query]
type = "string"
"""


@pytest.fixture
def rehearsed(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server of chat completions that rehearses the score of the test."""
    score = request.param
    if isinstance(score, str):
        (tmp_path / "score.toml").write_text(score)
        score = tmp_path / "score.toml"
    with rehearsing(Score.of_turns(score) if isinstance(score, list) else Score.read(score), PROTOCOL) as url:
        yield url


@contextlib.contextmanager
def serving(user: User, *command: str, **extra: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """The gateway of a command, at a port of its own: the process, its port, and which models it says it serves."""
    words = list(command)
    if "--port" in words:
        del words[words.index("--port") : words.index("--port") + 2]
    with user.start(*words, "--port", "0", **extra) as process:
        found = wait_for(process, SERVING)
        yield process, int(found[2]), found[1]


def command_in(console: str, home: pathlib.Path) -> list[str]:
    """The arguments of the first command of a block."""
    program, *words = shlex.split(console.splitlines()[0].removeprefix("$ "))
    assert program == "ripieno"
    return [word.replace("~", str(home)) for word in words]


def ask(port: int, path: str = "/v1/responses", key: str = "none", **body: Any) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        return dict(json.loads(said))


def log_of(process: subprocess.Popen[str]) -> str:
    """The log since the process began to serve; it must end with exit code 0."""
    process.terminate()
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0
    return str(said)


# Codex.

FUNCTION = {"type": "function", "parameters": {"type": "object"}, "strict": False}
#: The tools of such a client, and the beginning of its input.
CODING_TOOLS = [
    {**FUNCTION, "name": "exec_command"},
    {"type": "namespace", "name": "mcp__notes", "description": "", "tools": [{**FUNCTION, "name": "read_file"}]},
    {"type": "web_search", "external_web_access": True},
]
CODING_INPUT = [
    {"type": "message", "id": "msg_1", "role": "developer", "content": [{"type": "input_text", "text": "You code."}]},
    {"type": "message", "id": "msg_2", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
]
CODING: dict[str, Any] = {
    "model": "local-model",
    "tools": CODING_TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"session_id": "k"},
}


def configured(user: User, table: str, url: str) -> None:
    """The configuration of a page, whose servers all stand at one address."""
    user.configure(re.sub(r'base_url = "[^"]*"', f'base_url = "{url}"', table))


@pytest.mark.parametrize("rehearsed", [STRAY], indirect=True)
def test_codex(user: User, rehearsed: str) -> None:
    _, command, provider, codex, _, keyed, *_, prompted, left_out, _, _, logged, lines = texts(
        "tutorials/codex", *CODEX
    )
    configured(user, provider + prompted, rehearsed)
    assert command.splitlines()[1].startswith("Serving ollama/qwen3-coder (as any other name) at http://")
    settings = tomllib.loads(codex)
    assert settings["model_providers"]["ripieno"]["base_url"] + "," == command.split()[-3]
    assert set(tomllib.loads(keyed)["model_providers"]) == {settings["model_provider"]} == {"ripieno"}
    assert command_in(logged, user.workspace)[: len(words := command_in(command, user.workspace))] == words
    with serving(user, *command_in(logged, user.workspace)) as (process, port, names):
        assert names == "ollama/qwen3-coder (as any other name)"
        first = ask(port, input=CODING_INPUT, **CODING)["output"]
        assert [item["type"] for item in first] == ["message", "function_call"]
        assert "tool_call" not in first[0]["content"][0]["text"]
        done = {"type": "function_call_output", "id": "fco_1", "call_id": first[1]["call_id"], "output": "notes.txt"}
        second = ask(port, input=[*CODING_INPUT, *first, done], **CODING)["output"]
        assert [(item["name"], item.get("namespace")) for item in second] == [("read_file", "mcp__notes")]
        said = log_of(process)
    assert said.count(left_out.strip()) >= 1
    for line in lines.splitlines():
        # The numbers differ, and what stands before the level.
        pattern = re.sub(r"[0-9_]+(?= ms| tokens| out| bytes|\)\.|\.)", "[0-9_]+", re.escape(line).replace(r"\ ", " "))
        assert re.search(re.sub("req_[0-9a-f]{24}", "req_[0-9a-f]{24}", pattern), said), (pattern, said)


@pytest.mark.parametrize("rehearsed", [SEARCHING], indirect=True)
def test_a_search_of_ones_own_for_codex(user: User, rehearsed: str) -> None:
    _, command, provider, *_, bound, hiding, _, _ = texts("tutorials/codex", *CODEX)
    user.ensemble("web", WEB)
    configured(user, provider + bound, rehearsed)
    with serving(user, *command_in(command, user.workspace)) as (_, port, _):
        output = ask(port, input=CODING_INPUT, **CODING)["output"]
    assert [(item["type"], item["content"][0]["text"]) for item in output] == [("message", "It says: Found: strings")]
    configured(user, provider + bound.replace("show_calls = false", ""), rehearsed)
    with serving(user, *command_in(hiding, user.workspace)) as (_, port, _):
        again = ask(port, input=CODING_INPUT, **CODING)["output"]
    assert [item["type"] for item in again] == ["message"]


def test_codex_without_a_model(user: User) -> None:
    *_, score, provider, both, _, _, _, _, _, _ = texts("tutorials/codex", *CODEX)
    (user.workspace / "trial.toml").write_text(score)
    rehearse, serve = both.splitlines()
    with user.rehearse(command_in(rehearse, user.workspace)[1]) as urls:
        table = provider.replace("http://127.0.0.1:8001/v1", urls["openai-chat"])
        (user.workspace / "gateway.toml").write_text(table)
        with serving(user, *command_in(serve, user.workspace)) as (_, port, _):
            first = ask(port, input=CODING_INPUT, **CODING)["output"]
            assert [(item["type"], item.get("name")) for item in first][1:] == [("function_call", "exec_command")]
            done = {"type": "function_call_output", "call_id": first[1]["call_id"], "output": "notes.txt"}
            (last,) = ask(port, input=[*CODING_INPUT, *first, done], **CODING)["output"]
            assert last["content"][0]["text"] == "The shell said: notes.txt"


def test_the_servers_for_codex_stand_where_the_page_says() -> None:
    page = (DOCUMENTATION / "tutorials" / "codex.rst").read_text()
    rows = re.findall(r"- ``([a-z.-]+)/MODEL``\n +- ``([^`]+)``", page)
    assert [name for name, _ in rows] == ["ollama", "llama.cpp", "vllm", "lm-studio"]
    for name, url in rows:
        file = ROOT / "data" / "providers" / f"{name}.toml"
        data = tomllib.loads(file.read_text())
        assert (data["provider"]["name"], data["provider"]["base_url"]) == (name, url)
        assert data["capabilities"]["text_calls"] is True


# Tools behind an API.


def noted_words(console: str, user: User) -> list[str]:
    return [word.replace("/notes", "") for word in command_in(console, user.workspace)]


def typed_in_shell(console: str, user: User) -> str:
    """What the command of a block prints, with the workspace as the home."""
    command = ["sh", "-ec", console.removeprefix("$ ")]
    environment = user.environment(HOME=str(user.workspace))
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def ported(text: str, port: int) -> str:
    return re.sub(r"127\.0\.0\.1:8080", f"127.0.0.1:{port}", text)


@pytest.fixture
def noted(user: User) -> User:
    """A user with a note."""
    (user.workspace / "notes.txt").write_text("Buy strings.\n")
    return user


HOUSE = '[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url}"\n'


@pytest.mark.parametrize("rehearsed", [LOOKING], indirect=True)
def test_your_tools(noted: User, rehearsed: str, capsys: pytest.CaptureFixture[str]) -> None:
    making, command, asking, printed, curling, _, _, _, table, approving, _, _, _, again, _, _ = texts(
        "tutorials/your-tools-behind-an-api", *TOOLS
    )
    typed_in_shell(making, noted)
    assert (noted.workspace / "notes" / "notes.txt").read_text() == (noted.workspace / "notes.txt").read_text()
    noted.configure(HOUSE.format(url=rehearsed))
    words = noted_words(command, noted)
    with serving(noted, *words) as (_, port, names):
        assert f"Serving {names} at" in command
        said = typed_in_shell(ported(curling, port), noted)
        assert json.loads(said)["output"][-1]["content"][0]["text"] == "The first note says: Buy strings."
        room: dict[str, Any] = {}
        exec(compile(ported(asking, port), "page", "exec"), room)
        assert capsys.readouterr().out == printed
        exec(compile(again, "page", "exec"), room)
        assert capsys.readouterr().out == "Once more: Buy strings.\n"
        room["client"].close()
    with serving(noted, *command_in(approving, noted.workspace)):
        pass
    noted.configure(HOUSE.format(url=rehearsed) + table)
    with serving(noted, "serve", "responses") as (_, port, _):
        narrowed = [{"type": "mcp", "server_label": "git", "server_url": "http://127.0.0.1:9/", "allowed_tools": ["x"]}]
        with pytest.raises(AssertionError, match=r"tool of .*git"):
            ask(port, model="small-1", input="Hi.", tools=narrowed)


def test_your_tools_without_a_model(noted: User) -> None:
    *_, score, provider, both, _, _, _, _, _, _, _, _ = texts("tutorials/your-tools-behind-an-api", *TOOLS)
    (noted.workspace / "looking.toml").write_text(score)
    rehearse, serve = both.splitlines()
    words = noted_words(serve, noted)
    held: Any = {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {}}}}
    with noted.rehearse(command_in(rehearse, noted.workspace)[1]) as urls:
        table = provider.replace("http://127.0.0.1:8001/v1", urls["openai-chat"])
        (noted.workspace / "gateway.toml").write_text(table)
        with serving(noted, *words) as (_, port, _):
            output = ask(port, model="small-1", input="What do my notes say?")["output"]
            assert output[-1]["content"][0]["text"] == "The first note says: Buy strings."
            # The form reaches the model. This text does not have it.
            with pytest.raises(AssertionError, match="turn 2 of the score does not have the form"):
                ask(port, model="small-1", input="What do my notes say?", text=held)
        (noted.workspace / "gateway.toml").write_text(table.replace("json_mode = true", ""))
        with serving(noted, *words) as (_, port, _), pytest.raises(AssertionError, match="set json_mode = true"):
            ask(port, model="small-1", input="What do my notes say?", text=held)


@pytest.mark.parametrize("rehearsed", [WEATHER], indirect=True)
def test_tools_of_the_client(noted: User, rehearsed: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, command, asking, *_, mixing, _, _, _ = texts("tutorials/your-tools-behind-an-api", *TOOLS)
    noted.configure(HOUSE.format(url=rehearsed))
    words = noted_words(command, noted)
    with serving(noted, *words) as (_, port, _):
        room: dict[str, Any] = {}
        exec(compile(ported(asking.partition("response =")[0] + mixing, port), "page", "exec"), room)
        room["client"].close()
        assert capsys.readouterr().out == "notes.txt (13 bytes); It rains in Wien.\n"
        # Over a wire that has no place for what ran here, the model has forgotten it.
        said: list[dict[str, Any]] = [{"role": "user", "content": "Hi."}]
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
        message = ask(port, "/v1/chat/completions", model="small-1", messages=said, tools=tools)["choices"][0][
            "message"
        ]
        (call,) = message["tool_calls"]
        said += [message, {"role": "tool", "tool_call_id": call["id"], "content": "Rain."}]
        answer = ask(port, "/v1/chat/completions", model="small-1", messages=said, tools=tools)
        text = answer["choices"][0]["message"]["content"]
        assert "Rain." in text
        assert "notes.txt" not in text


@pytest.mark.parametrize("rehearsed", [WRITING], indirect=True)
def test_going_on_with_what_waits(noted: User, rehearsed: str) -> None:
    *_, printed, resuming, _, _, _, _ = texts("tutorials/your-tools-behind-an-api", *TOOLS)
    gateway, store = printed.split("[gateway.store]")
    misplaced = gateway.replace('secret = "{env:GATEWAY_SECRET}"\n', "") + '[gateway.store]\nsecret = "x"\n'
    (noted.workspace / "misplaced.toml").write_text(HOUSE.format(url=rehearsed) + misplaced)
    for command in (("serve", "responses"), ("check",)):
        refused = noted.run(*command, "--config", "misplaced.toml")
        text = refused.stdout + refused.stderr
        assert (refused.returncode, "secret belongs in [gateway]." in text, "Add the line" in text) == (2, True, False)
    lacking = noted.workspace / "lacking.toml"
    lacking.write_text(HOUSE.format(url=rehearsed) + gateway)
    refused = noted.run("serve", "responses", "--config", "lacking.toml", GATEWAY_SECRET="a secret of the tests")
    assert (refused.returncode, "Add the line [gateway.store]." in refused.stderr) == (2, True), refused.stderr
    checked = noted.run("check", "--config", "lacking.toml", GATEWAY_SECRET="a secret of the tests")
    assert (checked.returncode, "Add the line [gateway.store]." in checked.stdout + checked.stderr) == (2, True)
    gateway += f"[gateway.store]{store}"
    (noted.workspace / "gateway.toml").write_text(HOUSE.format(url=rehearsed) + gateway)
    notes = noted.workspace / "notes"
    notes.mkdir()
    words = ("serve", "responses", "--config", "gateway.toml", "--workspace", str(notes))
    with serving(noted, *words, GATEWAY_SECRET="a secret of the tests") as (_, port, _):
        ask(port, "/v1/chat/completions", model="small-1", messages=[{"role": "user", "content": "Write."}])
    (waiting,) = json.loads(noted.call("approvals", "list", "--format", "json").stdout)
    approving, going = resuming.replace("a2a61366", waiting["conversation"][:8]).splitlines()
    approved = noted.run(*command_in(approving, noted.workspace)).stdout
    assert going.replace("gateway.toml", str(noted.workspace / "gateway.toml")).replace("~/notes", str(notes)) in (
        approved.replace("Continue with:", "$")
    )
    done = noted.run(*command_in(going, noted.workspace))
    assert "3 bytes" in done.stdout, done.stderr
    assert (notes / "a.txt").read_text() == "one"


@pytest.mark.parametrize("rehearsed", [WRITING], indirect=True)
@pytest.mark.parametrize("given", [[], "", None])
def test_what_is_printed_after_an_approval_continues(noted: User, rehearsed: str, given: object) -> None:
    gateway = '[gateway]\nabsent = "defer"\nmodels = ["house/small-1"]\nensembles = ["io"]\n'
    gateway += 'secret = "{env:GATEWAY_SECRET}"\n[gateway.store]\n'
    (noted.workspace / "gateway.toml").write_text(HOUSE.format(url=rehearsed) + gateway)
    words = ("serve", "responses", "--config", "gateway.toml")
    with serving(noted, *words, GATEWAY_SECRET="a secret of the tests") as (_, port, _):
        waits = ask(port, "/v1/responses", model="small-1", input="Write.")
        approved = noted.call("approvals", "approve", waits["id"]).stdout.splitlines()
        assert approved[1] == (
            "Its client continues it, with a request that has the waiting response as previous_response_id."
        )
        if given is not None:
            done = ask(port, "/v1/responses", model="small-1", input=given, previous_response_id=waits["id"])
            assert done["status"] == "completed"
        else:
            advice = approved[2].removeprefix("To continue it here instead of the client:")
            assert "3 bytes" in noted.run(*shlex.split(advice)[1:]).stdout
    assert (noted.workspace / "a.txt").read_text() == "one"


@pytest.mark.parametrize("rehearsed", [WRITING], indirect=True)
def test_another_secret_than_that_of_the_store_is_refused_at_the_start(noted: User, rehearsed: str) -> None:
    gateway = '[gateway]\nabsent = "defer"\nmodels = ["house/small-1"]\nensembles = ["io"]\n'
    gateway += 'secret = "{env:GATEWAY_SECRET}"\n[gateway.store]\n'
    (noted.workspace / "gateway.toml").write_text(HOUSE.format(url=rehearsed) + gateway)
    words = ("serve", "responses", "--port", "0", "--config", "gateway.toml")
    with serving(noted, *words, GATEWAY_SECRET="a secret of the tests") as (_, port, _):
        ask(port, "/v1/responses", model="small-1", input="Write.")
    refused = noted.run(*words, GATEWAY_SECRET="another secret of the tests")
    reason, _, advice = refused.stderr.partition("or erase them: ripieno ")
    assert (refused.returncode, "were stored under another secret of [gateway]." in reason) == (2, True), refused.stderr
    assert noted.call(*shlex.split(advice.splitlines()[0]), "--yes").returncode == 0
    with serving(noted, *words, GATEWAY_SECRET="another secret of the tests") as (_, port, _):
        assert ask(port, "/v1/responses", model="small-1", input="Write.")["status"] == "incomplete"


@pytest.mark.parametrize("rehearsed", [LOOKING], indirect=True)
def test_a_gateway_in_an_application(noted: User, rehearsed: str) -> None:
    *_, program = texts("tutorials/your-tools-behind-an-api", *TOOLS)
    (noted.workspace / "application.py").write_text(program.replace("http://127.0.0.1:8001/v1", rehearsed))
    with noted.python("-m", "uvicorn", "application:app", "--port", "0") as process:
        found = wait_for(process, r"running on http://127\.0\.0\.1:([0-9]+) ")
        output = ask(int(found[1]), "/ai/v1/responses", model="small-1", input="What do my notes say?")["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call_output", "message"]


@pytest.mark.parametrize("rehearsed", [LOOKING], indirect=True)
def test_a_gateway_in_a_program(noted: User, rehearsed: str) -> None:
    *_, program, _ = texts("tutorials/your-tools-behind-an-api", *TOOLS)
    ast.parse(program)
    program = program.replace("http://127.0.0.1:8001/v1", rehearsed).replace("port=8080", "port=0")
    with noted.python("-c", "import sys; sys.stdout.reconfigure(line_buffering=True)\n" + program) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"Serving at http://127\.0\.0\.1:([0-9]+)\n", process.stdout.readline())
        assert found is not None
        output = ask(int(found[1]), model="small-1", input="What do my notes say?")["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call_output", "message"]


# Deploying.


@pytest.mark.parametrize("rehearsed", [LOOKING], indirect=True)
def test_deploying(noted: User, rehearsed: str) -> None:
    table, key, unit, storing, erasing, container, _, _, limits, line = texts(
        "tutorials/deploying-the-gateway", *DEPLOYING
    )
    done = noted.run(*command_in(key, noted.workspace))
    made, digest = done.stdout.strip(), done.stderr.splitlines()[-1].strip()
    configured(noted, re.sub(r"laptop = .*", digest, table), rehearsed)
    file = noted.configuration / "config.toml"
    file.write_text(file.read_text().replace("[gateway]\n", limits) + "\n" + storing)
    moved = file.rename(noted.workspace / "gateway.toml")
    variables = {"HOUSE_KEY": "k", "GATEWAY_SECRET": "a secret of the tests"}
    checked = noted.run("check", "--config", "gateway.toml", JOURNAL_URL="postgresql://db.example/ripieno", **variables)
    assert checked.returncode == 0
    # Without a server of databases, all is in a file.
    moved.write_text(moved.read_text().replace('[journal]\nurl = "{env:JOURNAL_URL}"\n', ""))
    assert noted.run("check", "--config", "gateway.toml", **variables).returncode == 0
    lacking = noted.run("serve", "responses", "--config", "gateway.toml", HOUSE_KEY="k")
    assert (lacking.returncode, "GATEWAY_SECRET" in lacking.stderr) == (2, True)
    started = re.search(r"^ExecStart=\S+/ripieno (.*)$", unit, re.MULTILINE)
    assert started is not None
    entry, usual = (json.loads(text) for text in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", container, re.MULTILINE))
    assert entry[0] == "ripieno"
    for written in (shlex.split(started[1]), [*entry[1:], *usual]):
        words = [str(moved) if word == "/etc/ripieno/gateway.toml" else word for word in written]
        with serving(noted, *words, **variables) as (process, port, names):
            assert re.fullmatch(r"house/small-1 with [24] workers", names)
            ask(port, key=made, model="small-1", input="Hi.")
            said = [json.loads(one) for one in log_of(process).splitlines()]
        shown = json.loads(line)
        (told,) = [one for one in said if one["logger"] == shown["logger"]]
        assert told.keys() == shown.keys()
        assert told["caller"] == "laptop"
        assert re.sub("[0-9]+", "0", told["message"]) == re.sub("[0-9]+", "0", shown["message"])
    listing, forgetting = erasing.splitlines()
    listed = noted.run(*command_in(listing, noted.workspace), "--format", "json")
    assert [(one["caller"], one["responses"]) for one in json.loads(listed.stdout)] == [("laptop", 2)], listed.stderr
    assert noted.run(*command_in(forgetting, noted.workspace)).returncode == 0
    again = noted.run(*command_in(forgetting, noted.workspace))
    assert (again.returncode, "laptop" in again.stderr) == (2, True)
    assert "No response is stored" in noted.run(*command_in(listing, noted.workspace)).stdout


def test_what_stands_before_it_has_the_same_bounds() -> None:
    _, _, unit, *_, nginx, haproxy, _, _ = texts("tutorials/deploying-the-gateway", *DEPLOYING)
    usual = GatewayDescriptor()
    assert f"client_max_body_size {usual.body_bytes // 2**20}m;" in nginx
    assert f"proxy_read_timeout {usual.seconds:.0f}s;" in nginx
    assert haproxy.count(f"{usual.seconds:.0f}s") == 2
    assert "uri /healthz" in haproxy
    stop = re.search(r"TimeoutStopSec=([0-9]+)", unit)
    files = re.search(r"LimitNOFILE=([0-9]+)", unit)
    assert stop is not None
    assert files is not None
    assert int(stop[1]) > usual.grace + 10
    assert int(files[1]) > 2 * usual.connections


def test_the_limits_and_the_metrics_are_those_that_there_are() -> None:
    page = (DOCUMENTATION / "tutorials" / "deploying-the-gateway.rst").read_text()
    shown = re.findall(r"   \* - ``(\w+)``\n     - ([0-9]+(?: [KM]iB)?)\n", page)
    units = {"KiB": 2**10, "MiB": 2**20}
    for key, value in shown:
        number, _, unit = value.partition(" ")
        assert getattr(GatewayDescriptor(), key) == int(number) * units.get(unit, 1), key
    assert len(shown) == 15
    named = re.findall(r"``((?:ripieno_gateway|gen_ai)_\w+)``", page)
    known = {conventions.spelled(value) for name, value in vars(conventions).items() if name.endswith("_METRIC")}
    assert {re.sub("_(total|seconds)$", "", name) for name in named} <= known


# The programs.


@pytest.mark.parametrize(
    ("rehearsed", "file", "asked", "printed"),
    [
        (
            EXAMPLES / "weather.toml",
            "stream.py",
            ["Is it raining in Wien?"],
            'I look.\n> get_weather {"city":"Wien"}\nIn Wien: rain, 9 degrees.\n',
        ),
        (
            EXAMPLES / "counting.toml",
            "turns.sh",
            ["How many lines has notes.txt?", "And how many words?"],
            "> count lines of notes.txt: 2\nIt has 2 lines.\nI count those, too.\n> count words of notes.txt: 3\n"
            "3 words, in 2 lines.\n",
        ),
        # With the gateway's own tools: what ran there is left alone.
        (WEATHER, "stream.py", ["Hi."], '> get_weather {"city":"Wien"}\nnotes.txt (14 bytes); {"city": "Wien"'),
        (COUNT, "turns.sh", ["Hi."], "> count words of notes.txt: 3\nnotes.txt (14 bytes); 3\n"),
    ],
    indirect=["rehearsed"],
)
def test_the_examples(user: User, rehearsed: str, file: str, asked: list[str], printed: str) -> None:
    (user.workspace / "notes.txt").write_text("one two\nthree\n")
    configured(user, (EXAMPLES / "gateway.toml").read_text(), rehearsed)
    own = asked == ["Hi."]
    words = ("serve", "responses", "--key-variable", "GATEWAY_KEY", *(("--ensemble", "io") if own else ()))
    with serving(user, *words, GATEWAY_KEY=KEY) as (_, port, _):
        done = run_program(user, port, KEY, file, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(printed) if own else done.stdout == printed


def run_program(user: User, port: int, key: str, file: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the page against the gateway at a port."""
    variables = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": key}
    if file.endswith(".py"):
        with user.python(str(EXAMPLES / file), *arguments, **variables) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)
    return subprocess.run(
        ["sh", str(EXAMPLES / file), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=user.workspace,
        env=user.environment(**variables),
    )


@pytest.mark.parametrize("rehearsed", [EXAMPLES / "weather.toml"], indirect=True)
def test_an_example_says_what_was_refused(user: User, rehearsed: str) -> None:
    configured(user, (EXAMPLES / "gateway.toml").read_text(), rehearsed)
    with serving(user, "serve", "responses", "--key-variable", "GATEWAY_KEY", GATEWAY_KEY=KEY) as (_, port, _):
        done = run_program(user, port, "another", "turns.sh", "Hi.")
    assert done.returncode == 1
    assert "The key is missing or wrong." in done.stderr


@pytest.mark.parametrize("rehearsed", [LOOKING], indirect=True)
def test_the_two_lines_of_the_readme(noted: User, rehearsed: str) -> None:
    noted.configure("".join(f'[providers.{name}]\nbase_url = "{rehearsed}"\n' for name in ("ollama", "anthropic")))
    shown = texts("../README", "toml", "", "", "", "", "python", "", "")[7]
    commands = [shlex.split(line, comments=True) for line in shown.splitlines()]
    assert [words[:3] for words in commands] == [["ripieno", "serve", "responses"]] * 2
    for words in commands:
        with serving(noted, *words[1:], ANTHROPIC_API_KEY="k"):
            pass
