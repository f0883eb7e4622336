"""The command line as a whole: light, helpful, the same options everywhere, one place for errors."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import click
import pytest

from ripieno.cli.common import exit_codes
from ripieno.cli.common.group import COMMANDS, GROUP, GROUPS
from ripieno.cli.common.main import ADVISED_GROUPS
from ripieno.cli.common.observers import observed
from ripieno.conducting.observers.tracing import Telemetry
from tests.assembly.test_plugins import install
from tests.support.command_line import PATIENCE, User
from tests.support.users import Call, Done

HEAVY = ("anthropic", "openai", "mcp", "starlette", "uvicorn", "httpx2", "rich", "jsonschema", "google", "pydantic")

#: What a listing does without: all that conducts, calls, records or asks, and, if nothing is opened, the event loop.
UNLISTED = (
    *("asyncio", "concurrent.futures", "logging", "ssl", "subprocess"),
    *("importlib.metadata", "ripieno.conducting", "ripieno.execution", "ripieno.approvals.requests"),
    *("ripieno.assembly.assembly", "ripieno.models.model", "ripieno.models.protocol", "ripieno.models.protocols"),
    *("ripieno.models.transport.clouds", "ripieno.storage.dispatch", "ripieno.storage.journal"),
    "ripieno.storage.redaction",
)


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """Every command and sub-command with the words that name it."""
    context = click.Context(GROUP)
    yield [], GROUP
    for name in COMMANDS:
        command = GROUP.get_command(context, name)
        assert command is not None
        yield [name], command
        if isinstance(command, click.Group):
            yield from (([name, inner], one) for inner, one in command.commands.items())


@pytest.mark.parametrize("argument", ["--version", "--help", "tools", "ensembles"])
def test_what_needs_no_library_imports_none(user: User, argument: str) -> None:
    program = (
        "import sys\nfrom ripieno.cli import main\n"
        "assert 'click' not in sys.modules, 'click'\n"
        f"code = main([{argument!r}])\n"
        f"sys.exit(code or str([name for name in {HEAVY!r} if name in sys.modules] or ''))"
    )
    with user.python("-c", program, PYTHONSAFEPATH="1") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert err.strip() == ""
    assert out


@pytest.mark.parametrize("argument", ["tools", "ensembles"])
def test_a_listing_loads_nothing_that_calls_tools_or_models(user: User, argument: str) -> None:
    program = (
        "import sys\nfrom ripieno.cli import main\n"
        f"code = main([{argument!r}])\n"
        f"sys.exit(code or str([name for name in {UNLISTED!r} if name in sys.modules] or ''))"
    )
    with user.python("-c", program, PYTHONSAFEPATH="1") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert err.strip() == ""
    assert "io" in out


@pytest.mark.parametrize("argument", ["--version", "--help", "complete"])
def test_help_and_completion_load_neither_configuration_nor_event_loop(user: User, argument: str) -> None:
    user.configure('[model]\ndefault = "house/large"\n')
    completing = {"_RIPIENO_COMPLETE": "bash_complete", "COMP_WORDS": "ripieno che", "COMP_CWORD": "1"}
    program = (
        "import sys\nfrom ripieno.cli import main\n"
        f"try: main({[] if argument == 'complete' else [argument]!r})\n"
        "except SystemExit: pass\n"
        "print([name for name in ('asyncio', 'ripieno.assembly') if name in sys.modules])"
    )
    with user.python("-c", program, PYTHONSAFEPATH="1", **(completing if argument == "complete" else {})) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert err == ""
    said, loaded = out.rstrip().rsplit("\n", 1)
    assert loaded == "[]"
    assert argument != "complete" or said == "plain,check"


def test_a_command_of_a_group_is_named_with_its_group(user: User) -> None:
    done = user.call("workers")
    assert (done.returncode, "No such command 'workers'. Did you mean: ripieno runs workers\n" in done.stderr) == (
        2,
        True,
    )
    assert "Did you mean 'work'?" in user.call("wrok").stderr
    inner = {group: {words[1] for words, _ in commands() if len(words) > 1 and words[0] == group} for group in GROUPS}
    assert {group: set(names.split()) for group, names in GROUPS.items()} == inner
    assert set(GROUPS) == {words[0] for words, _ in commands() if len(words) > 1} == set(ADVISED_GROUPS)


def test_a_configuration_folder_that_is_named_and_does_not_exist_is_a_warning_of_each_command(user: User) -> None:
    for command in (("runs", "list"), ("tools", "--format", "json"), ("--version",)):
        assert user.call(*command).stderr == ""
        missing = str(user.configuration / "missing")
        done = user.call(*command, RIPIENO_CONFIG_HOME=missing)
        warning = f"! RIPIENO_CONFIG_HOME names {missing}, which is not a folder: no configuration of yours is read.\n"
        assert (done.returncode, done.stderr) == (0, warning)


def test_the_module_runs_as_a_command(user: User) -> None:
    with user.python("-m", "ripieno", "--version") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.split()[0]) == (0, "ripieno")


def test_every_help_has_an_example_and_every_option_is_explained() -> None:
    for words, command in commands():
        text = command.get_help(click.Context(command, info_name=" ".join(["ripieno", *words])))
        assert "Example:\n    ripieno " in text, words
        unexplained = [
            parameter.name for parameter in command.params if isinstance(parameter, click.Option) and not parameter.help
        ]
        assert unexplained == [], words


def test_help_says_of_each_command_what_the_command_says_itself() -> None:
    for words, command in commands():
        if len(words) == 1 and words != ["new"]:
            first = (command.help or "").strip().partition("\n")[0]
            assert COMMANDS[words[0]][1] == first.replace(" Connects none of them.", ""), words


def test_help_tells_the_exit_codes(call: Call) -> None:
    done = call("--help")
    assert done.code == 0
    text = " ".join(done.out.split())
    for code in (
        exit_codes.GOOD,
        exit_codes.REFUSED,
        exit_codes.INPUT,
        exit_codes.PROVIDER,
        exit_codes.WAITING,
        exit_codes.LIMIT,
        exit_codes.UNANSWERED,
        exit_codes.INTERNAL,
        exit_codes.SIGNAL + 2,
    ):
        assert f"{code} " in text.partition("Exit codes:")[2]


def test_common_options_stand_before_or_after_the_command(call: Call, user: User, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "here.txt").write_text("found")
    (tmp_path / "some.toml").write_text('[confirmation]\ndeny = ["io.read_file"]\n')
    workspace, config = ("--workspace", str(tmp_path / "other")), ("--config", str(tmp_path / "some.toml"))
    reading = ("invoke", "io.read_file", "path=here.txt")
    for arguments in ((*workspace, *reading), (*reading, *workspace)):
        assert call(*arguments) == Done(0, "found\n", "")
    for arguments in (
        (*config, *workspace, *reading),
        (*reading, *config, *workspace),
        (*config, *reading, *workspace),
    ):
        done = call(*arguments)
        assert (done.code, done.out) == (exit_codes.REFUSED, "")
        assert "[confirmation] deny" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["toolz"], ["toolz", "tools"]),
        (["tools", "--protocl", "x"], ["--protocl", "--protocol"]),
        (["tools", "--format", "yaml"], ["yaml", "table", "json"]),
        (["tools", "--workspace", "nowhere"], ["nowhere", "does not exist"]),
        (["tools", "--config", "nowhere.toml"], ["nowhere.toml", "no such file"]),
        (["schema", "ensembl"], ["ensembl", "ensemble"]),
        (["rehearse", "demmo"], ["demmo", "demo"]),
        (["rehearse", "./demmo.toml"], ["demmo.toml", "no such file"]),
        (["rehearse", "demo", "--port", "99999"], ["99999", "65535"]),
        (["ask"], ["PROMPT"]),
        (["ask", " "], ["prompt is empty"]),
        (["ask", "--agent", "a", "--tools", "io", "x"], ["--agent", "--tools"]),
        (["invoke"], ["ENSEMBLE.TOOL"]),
    ],
)
def test_slips_are_answered_with_what_was_meant(call: Call, arguments: list[str], words: list[str]) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    for word in words:
        assert word.casefold() in done.err.casefold()
    assert "Traceback" not in done.err


#: By command: the values of the error's object, where they are the same everywhere, and words of its message.
ERRORS: list[tuple[list[str], int, dict[str, Any], str]] = [
    (["toolz"], 2, {"kind": "NoSuchCommand", "file": None, "hint": "For its options: ripieno --help"}, "toolz"),
    (["ask"], 2, {"kind": "UsageError", "hint": "For its options: ripieno ask --help"}, "PROMPT"),
    (["explain", "io.nothing"], 2, {"kind": "NameAbsence", "line": None, "problems": []}, "nothing"),
    (["ask", "-m", "here/m", "Hi."], 3, {"kind": "ProviderUnreachable"}, "Provider 'here': "),
    (["trust", "nowhere"], 2, {}, "nowhere"),
    (["journal", "show", "abc"], 2, {}, "no journal"),
    (["tools", "--config", "nowhere.toml"], 2, {"kind": "AssemblyFailure"}, "no such file"),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: "-".join(row[0][:2]))
def test_an_error_is_one_json_object(call: Call, user: User, row: tuple[list[str], int, dict[str, Any], str]) -> None:
    arguments, code, values, words = row
    user.configure('[providers.here]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n')
    done = call(*arguments, "--format", "json")
    assert (done.code, done.out) == (code, "")
    *_, line = done.err.splitlines()
    error = json.loads(line)
    assert error.keys() == {"kind", "message", "hint", "file", "line", "exit_code", "problems"}
    assert error == {**error, "exit_code": code, **values}
    assert words in error["message"]


def test_errors_in_files_are_all_in_the_object(call: Call, user: User) -> None:
    file = user.ensemble("bad", '[ensemble]\nname = "bad"\ndescripton = "B"\n[defalts]\ntimeout = 3\n')
    error = json.loads(call("tools", "--format", "json").err)
    assert [(one["file"], one["line"], one["key"]) for one in error["problems"]] == [
        (str(file), 3, "ensemble.descripton"),
        (str(file), 4, "defalts"),
    ]
    assert (error["file"], error["line"], error["hint"]) == (str(file), 3, "Did you mean 'description'?")
    assert error["message"] == "[ensemble] has no key descripton"


def test_a_bug_is_one_line_and_with_debug_a_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("nothing to share")

    monkeypatch.setattr("ripieno.cli.tools.list.load_layers", fail)
    done = call("tools")
    assert done.code == exit_codes.INTERNAL
    assert "ZeroDivisionError: nothing to share" in done.err
    assert "--debug" in done.err
    assert "Traceback" not in done.err
    for arguments in (("--debug", "tools"), ("tools", "--debug")):
        assert "Traceback" in call(*arguments).err


def test_a_reader_that_leaves_is_no_error(user: User) -> None:
    with user.start("schema", "ensemble") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        code = process.wait(60)
        assert process.stderr.read() == ""
    assert code in (0, exit_codes.SIGNAL + 13)


def test_what_a_stream_cannot_write_is_escaped(user: User) -> None:
    (user.workspace / "a.txt").write_text("Grüße", encoding="utf-8")
    done = user.run("invoke", "io.read_file", "path=a.txt", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "Gr\\xfc\\xdfe\n")


PLUGIN = """
import click
from ripieno.plugin import hookimpl
@hookimpl
def ripieno_commands():
    return {"hum": "humming_plugin:hum", "tools": "humming_plugin:hum", "broken": "humming_plugin:nothing"}
@click.command()
@click.argument("tune")
def hum(tune):
    "Hum a tune."
    click.echo(f"hm {tune}")
"""


def test_commands_of_plugins_need_consent(
    user: User, call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "ripieno-humming", "humming_plugin", PLUGIN)
    done = call("hum", "la")
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    how = "To allow it, write under [plugins] in"
    assert f'{how} {user.configuration / "config.toml"}: allow = ["ripieno-humming"]\n' in done.err
    # A list that is there is kept, in the file that counts.
    (user.workspace / "other.toml").write_text('[plugins]\nallow = ["absent"]\n')
    for words in (["hum", "la"], ["tools", "-e", "hum"], ["invoke", "hum.it"]):
        named = call("--config", "other.toml", *words)
        line = f'{how} {user.workspace / "other.toml"}: allow = ["absent", "ripieno-humming"]\n'
        assert (named.code, line in named.err) == (exit_codes.INPUT, True), named.err
    assert "hum" not in call("--help").out
    assert "not allowed" in call("doctor").out
    user.configure('[plugins]\nallow = ["ripieno-humming"]\n')
    assert call("hum", "la").out == "hm la\n"
    assert "\n  hum " in call("--help").out
    # What is built in cannot be replaced, and what cannot be imported is named.
    assert json.loads(call("tools", "--format", "json").out)["tools"]
    broken = call("broken")
    assert broken.code == exit_codes.INPUT
    assert "humming_plugin:nothing" in broken.err


def test_shells_can_complete_commands(user: User) -> None:
    asked = {"_RIPIENO_COMPLETE": "bash_complete", "COMP_WORDS": "ripieno to", "COMP_CWORD": "1"}
    done = user.run(**asked)
    assert (done.returncode, done.stdout.split()) == (0, ["plain,tools"])


def test_a_plugin_that_fails_is_named_by_the_doctor(
    user: User, call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "ripieno-broken", "broken_plugin", "import nothing_of_this_name")
    user.configure('[plugins]\nallow = ["ripieno-broken"]\n')
    done = call("doctor", "--format", "json")
    assert done.code == exit_codes.INPUT
    (plugin,) = json.loads(done.out)["plugins"]
    assert "nothing_of_this_name" in plugin["state"]
    # The rest of the command line works, and says the same.
    assert call("--help").code == 0
    assert "nothing_of_this_name" in call("tools").err


def test_the_environment_brings_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    with observed(None) as watchers:
        assert watchers == ()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with observed(None) as watchers:
        assert [type(one) for one in watchers] == [Telemetry]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with observed(None) as watchers:
        assert watchers == ()
