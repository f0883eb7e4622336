"""The examples of the first pages, and of those about providers, protocols and the journal, are run or compared."""

import ast
import asyncio
import functools
import json
import logging
import pathlib
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import google.genai
import openai
import psycopg
import pytest
from anyio.from_thread import start_blocking_portal
from google import genai
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ripieno.assembly import assemble
from ripieno.assembly.configuration import LoadedConfiguration, load_configuration
from ripieno.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.events import Alert
from ripieno.descriptors.timeouts import Caution, Timeouts
from ripieno.jsonvalues import EMPTY, freeze, merge
from ripieno.models import Model
from ripieno.models.fallback import FallbackModel
from ripieno.models.protocols.gemini import PROTOCOL as GEMINI
from ripieno.models.protocols.openai_chat import PROTOCOL as CHAT
from tests.documentation.code_blocks import DOCUMENTATION, blocks, texts
from tests.support.command_line import BUNDLED, PATIENCE, ROOT, User
from tests.support.loopback_models import golden
from tests.support.loopback_servers import serving
from tests.support.obedient_server import Obedient, obeying
from tests.support.postgresql import address_of_schema
from tests.support.users import Done
from tests.support.wire_requests import write

Call = Callable[..., Done]
PORT = re.compile(r"http://(?:127\.0\.0\.1|localhost):80\d\d")
SCORE = """
[score]
name = "mine"
continues = true
[[turns]]
text = "Hello from the score."
"""
EMBED = (
    *("python", "toml", "toml", "console", "python", "python", "", "", "toml", "python"),
    *("python", "toml", "console", "python"),
)
#: The providers that the tutorials presuppose.
BEFORE = "".join(
    f'[providers.{name}]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/{name}"\n\n'
    for name in ("house", "garden", "cellar")
)


def merged(user: User, *given: str) -> LoadedConfiguration:
    """The configuration of several blocks, each over the ones before it, without failures."""
    loaded = load_configuration(functools.reduce(merge, map(tomllib.loads, given), EMPTY), places=user.places)
    assert loaded.failures == ()
    return loaded


def typed(console: str) -> list[str]:
    """The arguments of the command in a block, without the redirection of its output."""
    first = console.splitlines()[0].removeprefix("$ ")
    program, *arguments = shlex.split(first.partition(" >> ")[0])
    assert program == "ripieno"
    return arguments


def test_no_page_has_a_block_that_is_not_seen() -> None:
    """The reader of pages finds what Sphinx would."""
    for page in sorted(DOCUMENTATION.rglob("*.rst")):
        name = str(page.relative_to(DOCUMENTATION).with_suffix(""))
        told = re.findall(r"^ *\.\. (?:code-block|testcode|testoutput)::", page.read_text(), re.MULTILINE)
        assert len([block for block in blocks(name) if block.text.strip()]) >= len(told), name


@pytest.fixture
def small() -> Iterator[str]:
    model = Obedient("parallel_calls")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(obeying(model)) as url:
        yield url


def test_add_a_provider(user: User, call: Call, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    house, ask, gemini, header, client, capabilities, probe = texts(
        "tutorials/add-a-provider", "toml", "console", "toml", "toml", "python", "toml", "console"
    )
    monkeypatch.setenv("HOUSE_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    user.configure("\n".join([PORT.sub(small.removesuffix("/v1"), house), gemini, header, capabilities]))
    checked = call("check", "--strict")
    assert (checked.code, checked.out) == (0, f"Checked {BUNDLED} ensembles: 0 errors, 0 warnings.\n")
    assert "HOUSE_GEMINI_KEY or GEMINI_API_KEY*" in call("providers", "gemini").out
    (row,) = json.loads(call("providers", "house", "--model", "small-1", "--format", "json").out)
    assert (row["capabilities"]["function_calling"], row["capabilities"]["parallel_calls"]) == (False, False)
    asked = user.call(*typed(ask), HOUSE_KEY="k")
    assert (asked.returncode, asked.stdout) == (0, "one two three four\n")
    (user.workspace / "client.py").write_text(client)
    with user.python("client.py", OPENAI_BASE_URL=small, OPENAI_API_KEY="k") as process:
        assert process.communicate(timeout=PATIENCE) == ("one two three four\n", "")
    probed = user.call(*typed(probe), HOUSE_KEY="k")
    shown = probe.splitlines()[1:]
    assert shown.pop() == "..."
    assert probed.stderr.splitlines()[: len(shown)] == shown
    file = user.configuration / "config.toml"
    assert probe.splitlines()[0].endswith(" >> ~/.config/ripieno/config.toml")
    file.write_text(file.read_text() + probed.stdout)
    assert call("check", "--strict").code == 0


async def test_keep_going(user: User) -> None:
    retries, told, timeouts, models, breaker = texts("tutorials/keep-going", "toml", "", "toml", "toml", "toml")
    providers = merged(user, BEFORE, retries, timeouts, models, breaker)
    house, cellar = providers.providers["house"], providers.providers["cellar"]
    assert house.retries == 5
    assert Timeouts(**house.timeouts) == Timeouts()
    assert set(house.timeouts) == {"connect", "first_byte", "between", "whole"}
    assert providers.configuration.breaker == Caution()
    assert cellar.breaker == {"failures": 20}
    tables = tomllib.loads(BEFORE + models)
    async with assemble(tables, places=user.places) as assembly:
        chain = assembly.conduct("Hi.").model
        assert isinstance(chain, FallbackModel)
        assert [model.identity for model in chain.models] == ["house/large", "garden/large", "cellar/small"]
        alone = assembly.conduct("Hi.", agent="reviewer").model
        assert isinstance(alone, Model)
        assert (alone.identity, isinstance(alone, FallbackModel)) == ("house/large", False)
    assert await first_alert(user) == told.strip()


async def first_alert(user: User) -> str:
    """The alert when a server is overloaded once."""
    count = 0

    async def answer(_: Request) -> Response:
        nonlocal count
        count += 1
        if count == 1:
            return JSONResponse({"error": {"message": "Overloaded."}}, 529, headers={"retry-after-ms": "100"})
        return Response(golden(CHAT, "json"), media_type="application/json")

    async with serving(answer) as (url, _):
        tables = {"providers": {"house": {"protocol": "openai-chat", "base_url": url}}, "ensembles": {"enabled": []}}
        async with assemble(tables, places=user.places) as assembly:
            events = [event async for event in assembly.access_model("house/large").stream([UserCanister.of("Hi.")])]
    return next(event.message for event in events if isinstance(event, Alert))


def test_schemas_on_the_wire(user: User, call: Call) -> None:
    shown, strict = texts("tutorials/schemas-on-the-wire", "", "toml")
    done = call(*typed(shown))
    assert done.code == 0
    # What is left out stands where three points do; columns may be wider.
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    wanted = [" ".join(line.split()) for line in shown.splitlines()[1:]]
    assert wanted.pop(0) == "..."
    assert [line for line in lines if line in wanted] == wanted
    loaded = merged(user, strict)
    assert loaded.configuration.controls.strict is True
    assert loaded.providers["openai"].capabilities_for("MODEL")["strict"] is True


def test_the_tables_of_the_protocols(user: User) -> None:
    gemini, _, _ = texts("reference/protocols/gemini", "toml", "json", "python")
    loaded = merged(user, gemini)
    assert loaded.providers["gemini"].needs == ((("GOOGLE_API_KEY",), ("GEMINI_API_KEY",)),)
    house = loaded.providers["house"].capabilities_for("any")
    assert (house["images_in_results"], house["allowed_tools"]) == (True, True)
    responses, _ = texts("reference/protocols/openai-responses", "toml", "json")
    assert merged(user, responses).providers["house"].capabilities_for("m")["reasoning_replay"] == "always"
    cellar, ollama, _, _ = texts("reference/protocols/prompted", "toml", "toml", "text", "text")
    loaded = merged(user, cellar, ollama)
    assert loaded.providers["cellar"].capabilities_for("m")["text_form"] == "qwen-coder"
    assert loaded.providers["ollama"].capabilities_for("zephyr:7b")["function_calling"] is False


def test_the_request_of_gemini() -> None:
    shown = json.loads(texts("reference/protocols/gemini", "toml", "json", "python")[1])
    signed = InvocationCanister(
        identifier="fc_1",
        name="get_weather",
        arguments=freeze({"city": "Wien"}),
        opaque=freeze({"gemini": {"thoughtSignature": "EqQB"}}),
    )
    sent = write(
        GEMINI,
        [
            SupervisorCanister.of("Be brief."),
            UserCanister.of("Is it raining in Wien?"),
            AssistantCanister.of("I look."),
            signed,
            ResultCanister(invocation_id="fc_1", content=(TextualContent(text="rain"),)),
        ],
    )
    assert json.loads(sent) == shown
    page = (DOCUMENTATION / "reference/protocols/gemini.rst").read_text()
    assert f"``{GEMINI.path_for('gemini-3-pro', stream=True)}``" in page


def test_official_clients_as_they_are_shown(user: User) -> None:
    """Each is made as its page says; what differs is the port."""
    codes = {
        "anthropic": texts("reference/protocols/anthropic", "python")[0],
        "openai-chat": texts("reference/protocols/openai-chat", "python")[0],
        "gemini": texts("reference/protocols/gemini", "toml", "json", "python")[2],
    }
    (user.workspace / "mine.toml").write_text(SCORE)
    said: dict[str, str] = {}
    with user.rehearse("./mine.toml") as urls:
        here = urls["anthropic"]
        for name, code in codes.items():
            # Google's client adds the version of the API itself.
            rest = urls[name].removeprefix(here).removesuffix("/v1beta")
            assert re.search(PORT.pattern + re.escape(rest) + '"', code), name
            room: dict[str, Any] = {"anthropic": anthropic, "openai": openai, "genai": genai}
            exec(PORT.sub(here, code), room)
            with room["client"] as client:
                said[name] = talk(client)
    assert said == dict.fromkeys(codes, "Hello from the score.")


def talk(client: Any) -> str:
    """A turn through the helper that accumulates a stream."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    if isinstance(client, anthropic.Anthropic):
        with client.messages.stream(model="any", max_tokens=99, messages=messages) as stream:
            return stream.get_final_text()
    if isinstance(client, openai.OpenAI):
        with client.chat.completions.stream(model="any", messages=messages) as completion:
            return completion.get_final_completion().choices[0].message.content or ""
    assert isinstance(client, google.genai.Client)
    return "".join(part.text or "" for part in client.chats.create(model="any").send_message_stream("Hello"))


def shell(text: str) -> list[list[str]]:
    """The arguments of each command of ours in a block; of the others only those that are known to be there."""
    commands = [shlex.split(line, comments=True) for line in text.splitlines()]
    assert {words[0] for words in commands} <= {"ripieno", "make", "pip", "export", "python3", ".", "rm"}
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert all(words[1] in targets for words in commands if words[0] == "make")
    return [words[1:] for words in commands if words[0] == "ripieno"]


def run_program(code: str) -> None:
    """Runs a program as shown, which may have ``await`` at its top level."""
    awaited = eval(compile(code, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {"__name__": "__main__"})
    if awaited is not None:
        asyncio.run(awaited)


@pytest.fixture
def starting(user: User, call: Call, small: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """A new user with a key and a file to read, whose provider ``anthropic`` is on loopback."""
    del call  # It makes this process that user's.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    (user.workspace / "README.rst").write_text("A title\n=======\n")
    user.configure(f'[providers.anthropic]\nprotocol = "openai-chat"\nbase_url = "{small}"\n')
    return user


def printed(user: User, program: str) -> str:
    """What a file with the program prints."""
    (user.workspace / "program.py").write_text(program)
    with user.python("program.py", ANTHROPIC_API_KEY="k") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def test_the_readme(starting: User, call: Call) -> None:
    tool, calls, install, first, chosen, program, terminal, _ = texts(
        "../README", "toml", "", "", "", "", "python", "", ""
    )
    program = program.replace("assemble(SETTINGS)", 'assemble(SETTINGS, layers="user")')  # The provider is there.
    assert shell(first) == shell(install) == []
    file = starting.configuration / "ensembles" / "words.toml"
    file.parent.mkdir(parents=True)
    file.write_text(tool)
    invoke, shown, ask = calls.splitlines()
    count = len((ROOT / "README.rst").read_text(encoding="utf-8").split())
    assert shown == f"{count} README.rst"
    assert call(*typed(invoke)).out == "3 README.rst\n"
    assert call(*typed(ask)).out == "one two three four\n"
    assert printed(starting, program).count("one two three four") == 1
    commands = shell(terminal)
    assert [words[0] for words in commands] == ["tools", "check", "invoke", "new", "ask", "import", "serve", "submit"]
    for words in (commands.pop(), commands.pop()):
        assert starting.run(*words).returncode == 0
    for words in (*commands, *shell(chosen)):
        done = call(*(word.replace("~", str(starting.configuration.parent)) for word in words))
        assert done.code == 0, done.err


def test_the_quickstart(starting: User, call: Call, small: str) -> None:
    demo, install, by_hand, asking, new, own, complete, ask, house, rehearse, program, clean = texts(
        "quickstart", *[""] * 8, "toml", "", "python", ""
    )
    assert shell(demo) == []
    for instruction, begun in zip(
        re.findall(r"_RIPIENO_COMPLETE=(\w+_source) ripieno", complete),
        (
            "complete -o nosort -F _ripieno_completion ripieno",
            "compdef _ripieno_completion ripieno",
            "complete --no-files",
        ),
        strict=True,
    ):
        assert begun in starting.run(_RIPIENO_COMPLETE=instruction).stdout
    for text in (install, by_hand, new, own, ask):
        for words in shell(text):
            done = call(*words)
            assert done.code == 0, done.err
    assert done.out == "one two three four\n"
    (write,) = shell(asking)
    assert starting.run(*write).returncode != 0
    assert not (starting.workspace / "note.txt").exists()
    (score,) = shell(rehearse)
    with starting.rehearse(*score[1:]) as urls:
        assert urls
    table = PORT.sub(small.removesuffix("/v1"), house)
    assert merged(starting, table).configuration.model == "house/small-1"
    assert "one two three four" in printed(starting, program)
    assert "greetings__greet_person" in call("tools").out
    assert shell(clean) == []
    home = starting.configuration.parent
    (home / ".venvs" / "ripieno").mkdir(parents=True)
    removal = clean.replace("~/.config/ripieno", str(starting.configuration)).replace("~", str(home))
    subprocess.run(["sh", "-ec", removal], check=True)
    assert "greetings__greet_person" not in call("tools").out


def test_each_installation_is_one_into_an_environment() -> None:
    """The Python of some systems refuses to install packages, so each page says into which environment."""
    made = "    python3 -m venv ~/.venvs/ripieno\n    . ~/.venvs/ripieno/bin/activate\n    pip install .\n"
    pages = {page: page.read_text(encoding="utf-8") for page in DOCUMENTATION.rglob("*.rst")}
    assert made in (ROOT / "README.rst").read_text(encoding="utf-8")
    assert made in pages[DOCUMENTATION / "quickstart.rst"]
    printed = re.compile(r"^ +(\$ )?pip install", re.MULTILINE)
    installing = {page: text for page, text in pages.items() if printed.search(text) and made not in text}
    assert len(installing) > 4
    assert [page for page, text in installing.items() if not re.search("virtual environment|<install>", text)] == []


def test_embedding(starting: User, small: str) -> None:
    program, table, score, rehearse, placed, conducted, *_, confirmer, _, _, _ = texts("tutorials/embed", *EMBED)
    assert shlex.split(rehearse)[2:] == ["rehearse", "./small.toml", "--port", "8000"]
    (starting.workspace / "small.toml").write_text(score)
    with starting.rehearse("./small.toml") as urls:
        starting.configure(table.replace("http://127.0.0.1:8000/v1", urls["openai-chat"]))
        assert printed(starting, program) == "One.\n"
        assert printed(starting, conducted).count("Two.") == 1
    starting.configure(PORT.sub(small.removesuffix("/v1"), table))
    assert printed(starting, program) == "one two three four\n"
    assert printed(starting, placed) == "one two three four\n"
    assert (starting.workspace / "users" / "alice").is_dir()
    # The first answer is shown as its events come, the second is printed.
    assert printed(starting, conducted).count("one two three four") == 2
    assert printed(starting, confirmer) == "one two three four\n"


# The journal and observability.


@pytest.fixture
def asked(user: User, call: Call, small: str) -> User:
    """Somebody who has asked a small model something."""
    user.configure(
        f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{small}"\n[model]\ndefault = "house/small-1"\n'
    )
    done = user.call("ask", "What is in README.rst?")
    assert done.returncode == 0, done.stderr
    return user


def commands(block: str) -> list[list[str]]:
    return [typed(line) for line in block.splitlines()]


def test_the_journal(
    asked: User,
    call: Call,
    capsys: pytest.CaptureFixture[str],
    postgresql_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, invoked, fork, verify, export, delete, enabled, program, copy, shared, others, clean = texts(
        "tutorials/the-journal", *["console"] * 6, "toml", "python", "console", "toml", "console", "console"
    )
    listed, shown, found = (call(*words) for words in commands(look))
    assert "What is in README.rst?" in listed.out
    assert re.search(r"^1  user\n    What is in README.rst\?\n", shown.out, re.MULTILINE)
    assert "ended: stop" in shown.out
    assert "What is in README.rst?" in found.out
    (words,) = commands(fork)
    identifier = call(*words).out.strip()
    assert "What is in README.rst?" in call("journal", "show", identifier).out
    for block in (verify, export):
        for words in commands(block):
            done = call(*words)
            assert done.code == 0, done.err
    (words,) = commands(delete)
    assert call(*words).out == "No conversation matches.\n"
    run_program(program)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "True True"
    assert [line.split()[2] for line in lines] == ["began", "said", "said", "turned", "ended"]
    (asked.workspace / "README.rst").write_text("Read me.")
    read, show = (call(*words) for words in commands(invoked))
    assert read.out == "Read me.\n"
    assert "call read_file" in show.out
    assert load_configuration(tomllib.loads(enabled), places=asked.places).configuration.journal is True
    monkeypatch.setenv("JOURNAL_URL", address_of_schema(postgresql_server))
    listed = call("journal", "list")
    (words,) = commands(copy)
    assert "It is verified: none altered." in call(*words).out
    with (asked.configuration / "config.toml").open("a") as file:
        file.write(f"\n{shared}")
    (asked.state / "journal.sqlite3").unlink()
    assert call("journal", "list").out == listed.out
    (words,) = commands(others)
    assert call(*words).out == listed.out
    # The statement of psql, which a machine may not have.
    program, address, option, statement = shlex.split(clean.removeprefix("$ "))
    assert (program, address, option) == ("psql", "$JOURNAL_URL", "--command")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(statement)


def test_observability(asked: User, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    stats, tracing, logs, line, own = texts("tutorials/observability", "console", "python", "python", "", "python")
    for words in commands(stats):
        done = call(*words)
        assert done.code == 0, done.err
        assert done.out.startswith("1 conversation, 1 turn, 0 calls ")
    assert "house/small-1" in done.out
    # The exporter keeps the standard output that there was when it was imported.
    run_program("import sys\n" + tracing.replace("SpanExporter())", "SpanExporter(out=sys.stdout))"))
    spans = capsys.readouterr().out
    assert [name in spans for name in ('"name": "chat small-1"', '"name": "invoke_agent"')] == [True, True]
    before = list(logging.getLogger("ripieno").handlers)
    try:
        run_program(logs)
    finally:
        logger = logging.getLogger("ripieno")
        for handler in set(logger.handlers) - set(before):
            logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    told = [json.loads(one) for one in capsys.readouterr().err.splitlines() if one.startswith("{")]
    assert [one["message"].split()[0] for one in told] == ["A", "An", "The"]
    shown = json.loads(line)
    assert set(told[1]) & set(shown) == set(told[1]) - {"finish", "input_tokens", "output_tokens"}
    run_program(own)


def test_make_removes_no_environment_of_the_users_own(tmp_path: pathlib.Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv").mkdir()
    done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ".venv stays, because make did not create it. To remove it: rm -r .venv\n" in done.stdout
    assert (tmp_path / ".venv").is_dir()
    (tmp_path / ".venv" / ".stamp-made").touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / ".venv").exists()
