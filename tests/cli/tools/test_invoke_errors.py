"""``ripieno invoke`` speaks to a person: denials, bugs, mistakes in descriptors, names without an ensemble."""

import json
import pathlib
import sys
from collections.abc import Iterator

import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import User
from tests.support.users import Call

DESCRIPTOR = """
[ensemble]
name = "mine"
description = "Greets"
module = "./greeting.py"
[[invokers]]
name = "greet_all"
description = "Greets"
effect = "none"
"""


@pytest.fixture
def mine(user: User) -> Iterator[pathlib.Path]:
    """The module of an ensemble, yet to be written."""
    yield user.ensemble("mine", DESCRIPTOR).parent / "greeting.py"
    forget()


def forget() -> None:
    """Lets the module be imported again."""
    for name in [name for name in sys.modules if name.startswith("ripieno_file_greeting")]:
        del sys.modules[name]


def test_a_denied_write_names_the_option_and_the_rule(call: Call, user: User) -> None:
    writing = ("invoke", "io.write_file", "path=a.txt", "content=x")
    done = call(*writing)
    assert (done.code, done.out) == (exit_codes.REFUSED, "")
    config = user.configuration / "config.toml"
    for words in (
        "io.write_file was denied",
        "its effect is write",
        "--yes",
        'approve = ["io.write_file"]',
        str(config),
    ):
        assert words in done.err
    # What it says is true.
    user.configure('[confirmation]\napprove = ["io.write_file"]\n')
    assert call(*writing).code == 0
    # Where approving it by name would not help, that is not advised.
    user.configure('[confirmation]\nask = ["io.write_file"]\n')
    asked = call(*writing)
    assert "--yes" in asked.err
    assert "approve =" not in asked.err
    assert call(*writing, "--yes").code == 0
    user.configure('[confirmation]\ndeny = ["io"]\n')
    denied = call(*writing, "--yes")
    assert denied.code == exit_codes.REFUSED
    assert "[confirmation] deny has 'io'" in denied.err
    assert "remove the rule" in denied.err


def test_a_rule_that_denies_the_target_of_a_link_is_named(call: Call, user: User) -> None:
    (user.workspace / "secrets").mkdir()
    (user.workspace / "secrets" / "a").write_text("hidden")
    (user.workspace / "link").symlink_to("secrets")
    user.configure('[confirmation]\ndeny = ["io.*(path=secrets/**)"]\n')
    for path in ("secrets/a", "link/a"):
        done = call("invoke", "io.read_file", f"path={path}")
        assert (done.code, done.out) == (exit_codes.REFUSED, "")
        assert "io.read_file was denied and did not run: [confirmation] deny has 'io.*(path=secrets/**)'" in done.err
        assert "add --yes" not in done.err


def test_a_bug_has_its_place_and_its_traceback(call: Call, mine: pathlib.Path) -> None:
    mine.write_text(
        "import json\n\n\ndef read(text):\n    return json.loads(text)\n\n\n"
        "def greet_all(context, arguments):\n    return read('{')\n"
    )
    done = call("invoke", "mine.greet_all")
    assert (done.code, done.out) == (exit_codes.REFUSED, "")
    # The line of the user's own, not that of the library that it called.
    assert "mine.greet_all failed with JSONDecodeError: Expecting property name" in done.err
    assert f", at {mine}:5\n" in done.err
    assert "--debug" in done.err
    assert done.err.count("JSONDecodeError") == 1
    debugged = call("invoke", "mine.greet_all", "--debug")
    assert "Traceback" in debugged.err
    assert f'File "{mine}", line 9, in greet_all' in debugged.err
    assert "run it again" not in debugged.err
    exact = call("invoke", "mine.greet_all", "--format", "json")
    assert json.loads(exact.out)["error"]["code"] == "TOOL_FAILURE"
    assert f"{mine}:5" in exact.err


def test_a_module_that_cannot_be_imported_is_a_bug_with_its_line(call: Call, mine: pathlib.Path) -> None:
    for line in ("import nothing_of_this_name", "def greet_all(:", "raise SystemExit(0)"):
        mine.write_text(f"x = 1\n{line}\n")
        done = call("invoke", "mine.greet_all")
        assert (done.code, f", at {mine}:2\n" in done.err) == (exit_codes.REFUSED, True), line
        assert f", at {mine}:2\n" in call("check").out
        forget()


def test_a_function_that_is_not_there_is_a_mistake_of_the_descriptor(call: Call, mine: pathlib.Path) -> None:
    descriptor = mine.parent / "mine.toml"
    assert call("tools").code == exit_codes.INPUT
    function = "6: error: the function of 'greet_all'"
    for text, place, words in (
        (None, "5: error: the module of 'mine'", ["no Python file", str(mine)]),
        ("def greet_al(context, arguments): ...\n", function, ["has no 'greet_all'", "'greet_al'", str(mine)]),
        ("\ndef greet_all(name): ...\n", function, ["(context, arguments)", f"{mine}:2"]),
        ("greet_all = 5\n", function, ["int"]),
    ):
        if text is not None:
            mine.write_text(text)
        checked = call("check")
        done = call("invoke", "mine.greet_all")
        # As in `ripieno check`.
        assert done.code == exit_codes.INPUT
        assert f"{descriptor}:{place} cannot be used" in done.err
        for word in words:
            assert word in done.err
            assert word in checked.out
        assert "bug" not in done.err
        forget()


def test_what_a_tool_says_on_purpose_is_said_as_it_is(call: Call, mine: pathlib.Path) -> None:
    mine.write_text(
        "from ripieno.plugin import ValidationFault\n"
        "def greet_all(context, arguments):\n    raise ValidationFault('Nobody is here.', suggestion='Wait.')\n"
    )
    assert call("invoke", "mine.greet_all").err == "Error: Nobody is here.\nWait.\n"


SLOW = "import asyncio\nasync def greet_all(context, arguments):\n    await asyncio.Event().wait()\n"


def test_a_timeout_says_where_the_limit_is_set(call: Call, mine: pathlib.Path) -> None:
    mine.write_text(SLOW)
    descriptor = mine.parent / "mine.toml"
    limited = 'timeout = 0.01\nmax_retries = 0\neffect = "none"'
    descriptor.write_text(DESCRIPTOR.replace('effect = "none"', limited))
    limit = "The limit is timeout (seconds, now 0.01) of greet_all under"
    done = call("invoke", "mine.greet_all")
    assert done.err == f"Error: The call timed out after 0.01 s.\n{limit} [[invokers]], in {descriptor}.\n"
    # The JSON is for a model.
    assert "smaller steps" in call("invoke", "mine.greet_all", "--format", "json").out
    # In a file of its own. What the tool advises stays.
    mine.write_text(
        "from ripieno.plugin import TimeoutFault\ndef greet_all(context, arguments):\n"
        "    raise TimeoutFault('Slow.', details={'timeout_seconds': 9}, suggestion='Ask for less.')\n"
    )
    forget()
    lines = DESCRIPTOR.strip().splitlines()
    start = lines.index("[[invokers]]")
    descriptor.write_text("\n".join([*lines[:start], "[[invokers]]", 'source = "mine/greet_all.toml"', ""]))
    own = mine.parent / "mine" / "greet_all.toml"
    own.parent.mkdir()
    own.write_text("\n".join(["[invoker]", *lines[start + 1 :], "timeout = 9", "max_retries = 0", ""]))
    limit = limit.replace("0.01", "9")
    assert call("invoke", "mine.greet_all").err == f"Error: Slow.\nAsk for less.\n{limit} [invoker], in {own}.\n"


def test_a_timeout_of_a_tool_with_an_argument_for_it_names_that(call: Call, mine: pathlib.Path) -> None:
    mine.write_text(SLOW)
    (mine.parent / "mine.toml").write_text(
        DESCRIPTOR
        + 'max_retries = 0\n[invokers.invocable]\ntimeout_argument = "patience"\n'
        + '[invokers.arguments]\ntype = "object"\nproperties.patience.type = "number"\n'
    )
    done = call("invoke", "mine.greet_all", "patience=0.01")
    assert done.err == "Error: The call timed out after 0.01 s.\nTo allow more time, add: patience=SECONDS\n"


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["read_file", "path=a b"], "Did you mean: ripieno invoke io.read_file 'path=a b'\n"),
        (["read_fil"], "Did you mean: ripieno invoke io.read_file"),
        (["io"], "its tools: ripieno tools --ensemble io\n"),
        (["far__look_up"], "Did you mean: ripieno invoke far.look_up\n"),
        (["zzz"], "ripieno tools\n"),
    ],
)
def test_a_tool_without_its_ensemble_gets_the_whole_command(
    call: Call, user: User, arguments: list[str], advice: str
) -> None:
    user.ensemble(
        "far", '[ensemble]\nname = "far"\n[connection]\norigin = "mcp"\ntransport = "stdio"\ncommand = ["nowhere"]\n'
    )
    done = call("invoke", *arguments)
    assert (done.code, done.out) == (exit_codes.INPUT, "")
    assert advice in done.err
