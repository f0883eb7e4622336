"""Bad input: each mistake gives one clear message (what, where, what to do), a non-zero exit, and nothing stays."""

import json
import shlex
import socket

import click
import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.cli.common import exit_codes
from ripieno.cli.common.group import COMMANDS, GROUP
from ripieno.cli.common.main import ADVISED_GROUPS
from tests.cli.check.test_configuration import SERVER, ensemble
from tests.support.command_line import User
from tests.support.users import Call

GOOD = ensemble("good")
#: What is wrong, and what the message of ``ripieno tools`` must say.
MISTAKES = {
    "malformed": (GOOD.replace('name = "good"', "name = good"), ["good.toml:3", "name = good", "quotes"]),
    "no TOML at all": ("\0\1\2", ["good.toml:1"]),
    "not UTF-8": ("", ["good.toml", "UTF-8"]),
    "unknown key": (GOOD.replace("description", "descripton", 1), ["good.toml:4", "descripton", "'description'"]),
    "unknown table": (GOOD + "[defalts]\ntimeout = 3\n", ["defalts", "'defaults'"]),
    "wrong type": (GOOD.replace('effect = "none"', "timeout = true"), ["good.toml:8", "timeout", "number"]),
    "wrong choice": (GOOD.replace('"none"', '"nothing"'), ["good.toml:8", '"nothing"', '"none"']),
    "missing key": (GOOD.replace('description = "Says hello"\neffect', "effect"), ["description"]),
    "two invokers of one name": (GOOD + GOOD.partition("[[")[2].join(["[[", ""]), ["two invokers", "'say_hello'"]),
    "bad schema": (GOOD + '[invokers.arguments]\ntype = "objct"\n', ["good.toml:13", "object"]),
    "schema that reaches out": (
        GOOD
        + '[invokers.arguments]\ntype = "object"\n[invokers.arguments.properties.a]\n"$ref" = "http://127.0.0.1:9/x"\n',
        ["good.toml:15", "http://127.0.0.1:9/x"],
    ),
    "unknown origin": (GOOD.replace('"command"', '"comand"'), ["'comand'", "'command'"]),
    "unknown placeholder": (GOOD.replace('"hello"]', '"{who}"]'), ["good.toml:11", "who"]),
    "missing variable": (
        SERVER.format(command='["cat"]') + 'environment = { A = "{env:NOT_SET_ANYWHERE}" }\n',
        ["'server'", "NOT_SET_ANYWHERE"],
    ),
    "no such server": (SERVER.format(command='["no-such-program"]'), ["'server'", "no-such-program", "PATH"]),
    "server that dies": (
        SERVER.format(command='["sh", "-c", "echo I am broken >&2; exit 3"]'),
        ["'server'", "I am broken"],
    ),
    "server that talks nonsense": (SERVER.format(command='["echo", "hello"]'), ["'server'"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_an_ensemble(call: Call, user: User, name: str) -> None:
    text, words = MISTAKES[name]
    file = user.ensemble("good", text)
    if name == "not UTF-8":
        file.write_bytes(b'[ensemble]\nname = "\xff"\n')
    done = call("tools")
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err
    # What stops a start is found by ``check`` too, unless only connecting can tell.
    checked = call("check")
    assert checked.code == (exit_codes.GOOD if "[connection]" in text else exit_codes.INPUT), checked.out


CONFIGURATIONS = {
    "unknown key": ("[limts]\nturns = 3\n", ["tools"], ["config.toml:1", "limts", "'limits'"]),
    "unknown ensembles": (
        '[ensembles]\nenabled = ["oi", "nothing", "io"]\n',
        ["tools"],
        ["'oi'", "'nothing'", "[ensembles] enabled"],
    ),
    "unknown profile": ('[ensembles]\nprofile = "minmal"\n', ["tools"], ["'minmal'", "'minimal'"]),
    "no such folder": ('[ensembles]\npaths = ["nowhere"]\n', ["tools"], ["nowhere"]),
    "wrong provider": ("", ["ask", "-m", "opnai/x", "Hello"], ["'opnai'", "'openai'"]),
    "no model": ("", ["ask", "Hello"], ["[model]", 'default = "', "-m", "[providers.mine]", "config.toml"]),
    "model without provider": ("", ["ask", "-m", "small", "Hello"], ["provider/model", "'small'", "anthropic/NAME"]),
    "model of a family": (
        "",
        ["ask", "-m", "claude", "Hello"],
        ["not 'claude'. Did you mean anthropic/claude-... or bedrock/claude-... or vertex/claude-...?"],
    ),
    "model without its provider": ("", ["ask", "-m", "grok-4", "Hello"], ["Did you mean xai/grok-4?"]),
    "provider without a model": ("", ["ask", "-m", "openai", "Hello"], ["For example: openai/NAME."]),
    "missing key": ("", ["ask", "-m", "openai/x", "Hello"], ["OPENAI_API_KEY", "export", "openai"]),
    "unknown agent": ("", ["ask", "--agent", "wrtier", "Hello"], ["'wrtier'", "[agents.NAME]"]),
    "agent whose tools are nowhere": (
        '[agents.writer]\nmodel = "ollama/x"\ntools = ["io.red_file"]\n',
        ["ask", "--agent", "writer", "Hello"],
        ["io.red_file", "io.read_file"],
    ),
    "unknown tools": ("", ["ask", "-m", "ollama/x", "--tools", "io.red_*", "Hello"], ["io.red_*"]),
    "unknown protocol": (
        '[providers.mine]\nprotocol = "opnai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n',
        ["ask", "-m", "mine/x", "Hello"],
        ["'opnai-chat'", "'openai-chat'"],
    ),
}


def test_the_recipe_for_a_model_is_a_configuration(call: Call, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    done = call("ask", "Hello")
    assert 'ripieno ask -m gemini/MODEL "..."   # needs GEMINI_API_KEY* or GOOGLE_API_KEY\n' in done.err
    recipe = done.err[done.err.index("  [model]") :]
    assert recipe.count("\n") == 5
    user.configure(recipe)
    assert call("check", "--strict").code == 0
    loaded = load_configuration(places=user.places)
    assert loaded.configuration.model == "mine/MODEL"
    assert loaded.providers["mine"].protocol == "openai-chat"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_mistakes_in_the_configuration(call: Call, user: User, name: str) -> None:
    text, arguments, words = CONFIGURATIONS[name]
    user.configure(text)
    done = call(*arguments)
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err


def test_an_endpoint_that_nobody_serves(call: Call, user: User) -> None:
    # Bound and not listening: the port refuses connections, and no other program gets it.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        user.configure(f'[providers.mine]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:{port}/v1"\n')
        done = call("ask", "-m", "mine/x", "Hello")
    assert (done.code, done.out) == (exit_codes.PROVIDER, "")
    assert f"Nothing answers at http://127.0.0.1:{port}/v1" in done.err
    assert "Check that the server is running" in done.err


def test_two_files_of_one_name_in_one_layer(call: Call, user: User) -> None:
    one, two = user.ensemble("good", GOOD), user.ensemble("also", GOOD)
    done = call("tools")
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    assert "two ensembles named 'good'" in done.err
    assert str(one) in done.err
    assert str(two) in done.err


def test_an_advised_command_repeats_the_options(call: Call, user: User) -> None:
    config = user.workspace / "my settings.toml"
    config.write_text('[ensembles]\ninclude = ["none-such"]\n')
    done = call("tools", "--config", str(config), "--profile", "minimal")
    advised = done.err.rstrip().rpartition(": ripieno ")[2]
    # With the profile, ``check`` would not check files.
    assert advised == f"check --config {shlex.quote(str(config))}"
    checked = call(*shlex.split(advised))
    assert (checked.code, "none-such" in checked.out) == (exit_codes.INPUT, True)
    assert call("check", "--profile", "minimal", "--config", str(config)).err.count("which does not exist") == 1
    # A path may need other quotes in JSON than in a shell.
    failure = call("invoke", "io.read_file", "--config", str(config), "--format", "json")
    assert "none-such" in json.dumps(json.loads(failure.err))


def test_the_options_of_an_advised_command_follow_its_name(call: Call, user: User) -> None:
    # As each ``--help`` has them. In a group, the name has two words.
    groups = [name for name in COMMANDS if isinstance(GROUP.get_command(click.Context(GROUP), name), click.Group)]
    assert sorted(groups) == sorted(ADVISED_GROUPS)
    config = user.workspace / "own.toml"
    config.write_text("")
    assert call("invoke", "io.list_directory", "path=.").code == exit_codes.GOOD
    missing = call("journal", "show", "none-such", "--config", str(config))
    assert missing.err.rstrip().endswith(f": ripieno journal list --config {config}")


def test_an_advised_command_is_as_short_as_the_given_one(call: Call, user: User) -> None:
    user.configure('[ensembles]\ninclude = ["none-such"]\n')
    assert call("tools").err.rstrip().endswith(": ripieno check")


def test_a_plugin_that_is_no_longer_installed_is_named(call: Call, user: User) -> None:
    user.configure('[plugins]\nallow = ["ripieno-bakery"]\n')
    advice = "It may come from a plugin that is allowed and not installed: ripieno-bakery."
    for command in (("bake",), ("invoke", "bakery.knead"), ("tools", "--ensemble", "bakery")):
        done = call(*command)
        assert (done.code, advice in " ".join(done.err.split())) == (exit_codes.INPUT, True), done.err
