"""``ripieno tools`` and ``ripieno ensembles``."""

import json
from typing import Any

import anthropic.types
import openai.types.chat
import pydantic
import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import Screen, User
from tests.support.users import Call

ECHO = """
[ensemble]
name = "echo"
description = "Says it again"
[[invokers]]
name = "say_again"
description = "Says \\u001b[31mred\\u001b[0m things again\\u202e."
effect = "{effect}"
{more}
[invokers.invocable]
origin = "command"
argv = ["echo", "--", "{{text}}"]
[invokers.arguments]
type = "object"
required = ["text"]
[invokers.arguments.properties.text]
type = "string"
description = "What to say"
"""

ANYTHING = """
[ensemble]
name = "anything"
description = "Takes it"
[[invokers]]
name = "take"
description = "Takes whatever it is given."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["cat"]
[invokers.arguments]
type = "object"
additionalProperties = { type = "string" }
"""


def echo(effect: str = "read", more: str = "") -> str:
    return ECHO.format(effect=effect, more=more)


def test_the_table_names_tools_and_says_whether_they_ask(call: Call, user: User) -> None:
    user.ensemble("echo", echo("destructive"))
    user.configure('[confirmation]\ndeny = ["io.list_*"]\n')
    done = call("tools")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["NAME", "TOOL", "EFFECT", "ASKS", "DESCRIPTION"]
    assert {tuple(line[:4]) for line in lines[1:]} == {
        ("list_directory", "io.list_directory", "read", "denied"),
        ("read_file", "io.read_file", "read", "no"),
        ("write_file", "io.write_file", "write", "yes"),
        ("say_again", "echo.say_again", "destructive", "yes"),
    }
    assert "\x1b" not in done.out
    assert "\\x1b[31mred" in done.out
    assert "\\u202e" in done.out


def test_json_has_everything(call: Call, user: User) -> None:
    user.ensemble("echo", echo("write", "timeout = 5"))
    user.configure('[confirmation]\napprove = ["echo.say_again"]\n')
    done = call("tools", "--ensemble", "echo", "--format", "json")
    listed = json.loads(done.out)
    assert listed["left_out"] == []
    (tool,) = listed["tools"]
    assert (tool["name"], tool["identity"], tool["ensemble"], tool["hosted"]) == (
        "say_again",
        "echo.say_again",
        "echo",
        "here",
    )
    assert tool["confirmation"] == {"action": "run", "reason": "[confirmation] approve has 'echo.say_again'"}
    assert tool["policy"]["effect"] == "write"
    assert tool["policy"]["timeout"] == 5
    assert tool["arguments"]["required"] == ["text"]


def test_presets_are_named_and_not_shown(call: Call, user: User) -> None:
    user.ensemble(
        "echo", echo().replace("[invokers.arguments]\n", 'presets = { text = "secret" }\n[invokers.arguments]\n')
    )
    done = call("tools", "--ensemble", "echo", "--format", "json")
    assert done.code == 0, done.err
    (tool,) = json.loads(done.out)["tools"]
    assert tool["policy"]["presets"] == ["text"]
    assert "secret" not in done.out


typed = pytest.mark.parametrize(
    ("protocol", "type_"),
    [
        ("anthropic", anthropic.types.ToolParam),
        ("openai-chat", openai.types.chat.ChatCompletionToolParam),
        ("openai-responses", openai.types.responses.FunctionToolParam),
    ],
)


@typed
def test_what_is_sent_when_arguments_are_held_to_their_schemas(
    call: Call, user: User, protocol: str, type_: Any
) -> None:
    user.ensemble("echo", echo().replace('type = "object"', 'type = "object"\nadditionalProperties = {}'))
    user.ensemble("anything", ANYTHING)
    done = call("tools", "--protocol", protocol, "--strict", "--format", "json")
    assert done.code == 0, done.err
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(list[type_])
    sent = adapter.validate_python(json.loads(done.out), strict=True)
    definitions = {one["name"]: one for one in (one.get("function", one) for one in sent)}
    assert {name: one.get("strict", False) for name, one in definitions.items()} == {
        **dict.fromkeys(["list_directory", "read_file", "write_file", "say_again"], True),
        "take": False,  # Its arguments may have any name.
    }
    schemas = {name: one.get("parameters") or one["input_schema"] for name, one in definitions.items()}
    assert schemas["say_again"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["take"] or schemas["take"]["additionalProperties"]
    lines = [line.split()[:3] for line in call("tools", "--protocol", protocol, "--strict").out.splitlines()]
    assert lines[0] == ["NAME", "BYTES", "STRICT"]
    assert {name: held for name, _, held in lines[1:]} == {
        name: "yes" if one.get("strict") else "no" for name, one in definitions.items()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--protocol", "gemini"), "leave out --strict"),
        (("--protocol", "prompted"), "leave out --strict"),
        (("--protocol", "anthropics"), "anthropic"),
    ],
)
def test_what_cannot_be_strict_says_so(call: Call, arguments: tuple[str, ...], said: str) -> None:
    done = call("tools", "--strict", *arguments)
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    assert said in done.err


@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "openai-chat", "openai-responses", "prompted"])
def test_a_protocol_in_a_table_tells_what_each_tool_costs(call: Call, protocol: str) -> None:
    done = call("tools", "--protocol", protocol)
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["NAME", "BYTES", "DESCRIPTION"]
    assert [line[0] for line in lines[1:]] == ["list_directory", "read_file", "write_file"]
    assert all(int(line[1]) > 100 for line in lines[1:])


def test_a_terminal_gets_a_drawn_table_without_control_characters(user: User) -> None:
    user.ensemble("echo", echo())
    with Screen(user, "tools", COLUMNS="200") as screen:
        assert screen.end() == 0
        assert "\x1b[1m" in screen.text
        assert "\\x1b[31mred" in screen.text
        assert "\x1b[31mred" not in screen.text


def test_the_description_gives_its_room_to_the_names(user: User) -> None:
    named = (
        echo("destructive")
        .replace('"echo"', '"greetings"\nprefix = "greetings"', 1)
        .replace("say_again", "greet_person")
    )
    user.ensemble("greetings", named)
    for options in ((), ("--strict",)):
        # The width of most terminals.
        with Screen(user, "tools", "--ensemble", "greetings", *options, COLUMNS="80") as screen:
            assert screen.end() == 0
            assert "greetings__greet_person " in screen.text
            assert ("greetings.greet_person " in screen.text) is not bool(options)
            assert "again\\u202e." in screen.text.replace(" ", "").replace("\r\n", "")
    # In the narrowest ones, nothing is lost.
    with Screen(user, "tools", "--ensemble", "greetings", COLUMNS="30") as screen:
        assert screen.end() == 0
        lines = screen.text.splitlines()[-20:]
        assert "greetings__greet_person" in "".join(line.split("   ")[0].strip() for line in lines)


def test_ensembles_that_do_not_play_say_why(call: Call, user: User) -> None:
    user.ensemble("echo", echo())
    user.ensemble("off", echo().replace('name = "echo"', 'name = "off"\nenabled = false'))
    user.ensemble(
        "far", '[ensemble]\nname = "far"\n[connection]\norigin = "mcp"\ntransport = "stdio"\ncommand = ["nowhere"]\n'
    )
    user.configure('[ensembles]\nenabled = ["io", "far"]\n')
    done = call("ensembles")
    assert done.code == 0, done.err
    rows = {line.split()[0]: line for line in done.out.partition("\n\n")[0].splitlines()[1:]}
    assert [rows[name].split()[1] for name in ("io", "far", "echo", "off")] == [
        "enabled",
        "enabled",
        "available",
        "disabled",
    ]
    assert f'To add it: include = ["NAME"] under [ensembles], in {user.configuration / "config.toml"}.' in done.out
    assert "To add it: include = [" in call("tools", "--ensemble", "echo").err
    # The state does not replace the description.
    assert rows["off"].endswith(rows["echo"].split("  ")[-1])
    assert f"\noff: Disabled: enabled = false in {user.configuration / 'ensembles' / 'off.toml'}.\n" in done.out
    assert rows["far"].split()[2] == "mcp"
    listed = {one["name"]: one for one in json.loads(call("ensembles", "--format", "json").out)["ensembles"]}
    assert listed["io"]["tools"] == ["read_file", "write_file", "list_directory"]
    assert listed["far"]["origin"] == "mcp"
    assert listed["echo"]["reason"]


@pytest.mark.parametrize("before", [True, False])
def test_a_profile_is_played_in_the_place_of_what_is_configured(call: Call, user: User, before: bool) -> None:
    user.configure('[ensembles]\nenabled = ["io"]\n')
    option, command = ("--profile", "minimal"), ("tools", "--format", "json")
    done = call(*option, *command) if before else call(*command, *option)
    assert done.code == 0
    names = {one["identity"] for one in json.loads(done.out)["tools"]}
    assert "file_read.head" in names
    assert "io.read_file" not in names


def test_only_the_ensemble_that_is_asked_for_is_connected(call: Call, user: User) -> None:
    user.ensemble(
        "far", '[ensemble]\nname = "far"\n[connection]\norigin = "mcp"\ntransport = "stdio"\ncommand = ["nowhere"]\n'
    )
    assert call("tools").code == exit_codes.INPUT
    done = call("tools", "--ensemble", "io")
    assert (done.code, done.err) == (0, "")
    assert "read_file" in done.out


def test_long_descriptions_are_whole_on_request_only(call: Call, user: User) -> None:
    long = "Says it, " + "and says it again, " * 20 + "and ends."
    user.ensemble(
        "echo", echo().replace("Says \\u001b[31mred\\u001b[0m things again\\u202e.", f"{long}\\nSecond line.")
    )
    for arguments in (("tools",), ("tools", "--protocol", "anthropic")):
        assert f"{long} Second line.\n" in call(*arguments, "--full").out
        assert "and ends." not in call(*arguments).out
    with Screen(user, "tools", "--ensemble", "echo", COLUMNS="300") as screen:
        assert screen.end() == 0
        assert "Says it, and says" in screen.text
        assert "and ends." not in screen.text
