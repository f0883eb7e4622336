"""``ripieno invoke``: typed arguments, the one pipeline, and what is printed of the result."""

import json
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.cli.common import exit_codes
from ripieno.cli.tools.invoke import read_pairs, read_value, types_of
from tests.counts import count
from tests.support.command_line import Screen, User
from tests.support.users import Call, Done

MIXED: dict[str, Any] = {
    "type": "object",
    "$defs": {"number": {"type": "number"}},
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "number": {"$ref": "#/$defs/number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "table": {"type": "object"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "word": {"enum": ["1", "2", "true"]},
        "digit": {"enum": [1, 2]},
        "odd": {"enum": [1, "1"]},
        "fixed": {"const": False},
        "free": {},
        "endless": {"$ref": "#/properties/endless"},
        "nowhere": {"$ref": "#/nowhere"},
    },
}


PRINTING = """
import os, subprocess

print("at import")

def add(context, arguments):
    print("in python")
    os.write(1, b"from the descriptor\\n")
    subprocess.run(["echo", "from a process"])
    return "the result"
"""
PRINTING_TOOL = """
[ensemble]
name = "loud"
module = "./loud.py"
[[invokers]]
name = "add"
description = "Adds."
effect = "none"
"""


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_a_tool_prints_is_no_part_of_the_result(user: User, output: str) -> None:
    user.ensemble("loud", PRINTING_TOOL).with_suffix(".py").write_text(PRINTING)
    done = user.run("invoke", "loud.add", "--format", output)
    assert (json.loads(done.stdout)["output"] if output == "json" else done.stdout) in ("the result", "the result\n")
    for line in ("at import", "in python", "from the descriptor", "from a process"):
        assert line in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("text=true", "true"),
        ("text=a=b", "a=b"),
        ("whole=1.0", 1.0),
        ("whole=many", "many"),
        ("number=5", 5),
        ("flag=True", "True"),
        ("list=1,2", ["1,2"]),
        ("list=5", [5]),
        ("list=[5]", [5]),
        ('table={"a": null}', {"a": None}),
        ("maybe=null", None),
        ("maybe=5", "5"),
        ("either=5", 5),
        ("either=x", "x"),
        ("word=1", "1"),
        ("word=true", "true"),
        ("digit=1", 1),
        ("odd=1", 1),
        ("fixed=false", False),
        ("free=5", 5),
        ("free=x", "x"),
        ("unknown=5", 5),
        ("endless=5", 5),
        ("nowhere=x", "x"),
        ('table={"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("number=NaN", "NaN"),
    ],
)
def test_values_are_read_by_their_schema(pair: str, value: object) -> None:
    ((name, read),) = read_pairs([pair], MIXED).items()
    assert name == pair.partition("=")[0]
    assert (type(read), read) == (type(value), value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def test_the_items_of_a_list_may_follow_each_other() -> None:
    paths = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"paths": paths, "path": {"type": "string"}}}
    assert read_pairs(["paths=1", "path=a", 'paths=["b", "c"]'], schema) == {"paths": ["1", "b", "c"], "path": "a"}
    with pytest.raises(click.UsageError, match="'path' is given twice"):
        read_pairs(["path=a", "path=b"], schema)


@settings(max_examples=count(2000))
@given(JSON)
def test_every_value_can_be_typed_under_the_schema_of_its_type(value: Any) -> None:
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    schema = {"type": names.get(type(value), "object")}
    text = value if isinstance(value, str) else json.dumps(value)
    assert read_value(text, schema, schema) == value


@settings(max_examples=count(2000))
@given(st.text(), JSON)
def test_reading_never_fails_whatever_the_schema_is(text: str, schema: Any) -> None:
    whole = {"type": "string"}
    assert read_value(text, whole, whole) == text
    assert types_of(schema if not isinstance(schema, dict) else {"x-odd": schema}, {}) >= {"string"}


def test_the_text_of_a_result_is_printed_on_lines_of_its_own(call: Call, user: User) -> None:
    (user.workspace / "a.txt").write_text("one\ntwo\n\x1b[31m")
    assert call("invoke", "io.read_file", "path=a.txt") == Done(0, "one\ntwo\n\x1b[31m\n", "")
    (user.workspace / "b.txt").write_text("one\n")
    assert call("invoke", "io.read_file", "path=b.txt") == Done(0, "one\n", "")
    (user.workspace / "c.txt").write_text("")
    assert call("invoke", "io.read_file", "path=c.txt").code == 0
    assert call("invoke", "io.read_file", "path=a.txt", "start_line=2", "end_line=2").out.strip() == "two"


def test_json_is_the_object_of_the_specification(call: Call, user: User) -> None:
    (user.workspace / "a.txt").write_text("one")
    good = json.loads(call("invoke", "io.read_file", "path=a.txt", "--format", "json").out)
    assert (good["success"], good["output"], good["error"]) == (True, "one", None)
    assert good["metadata"]["total_output_bytes"] == 3
    done = call("invoke", "io.read_file", "path=b.txt", "--format", "json")
    assert done.code == exit_codes.REFUSED
    bad = json.loads(done.out)
    assert (bad["success"], bad["error"]["type"], bad["recoverable"]) == (False, "ResourceError", True)


OPEN = """
[ensemble]
name = "open"
[[invokers]]
name = "convert"
description = "Converts."
effect = "read"
[invokers.invocable]
origin = "command"
argv = ["echo", "{timezone}"]
[invokers.arguments]
type = "object"
required = ["timezone"]
properties = { timezone = { type = "string" } }
additionalProperties = true
"""


def test_an_argument_that_nobody_knows_is_named(call: Call, user: User) -> None:
    user.ensemble("open", OPEN)
    lacking = call("invoke", "open.convert", "zone=3")
    assert lacking.code == exit_codes.REFUSED
    assert "Error: unknown argument zone. Did you mean timezone?" in lacking.err.splitlines()
    besides = call("invoke", "open.convert", "timezone=a", "timezones=3", "extra=1")
    assert (besides.code, besides.out) == (0, "a\n")
    assert besides.err == "Warning: unknown argument timezones. Did you mean timezone?\n"
    closed = call("invoke", "io.read_file", "path=a", "pathh=3")
    assert closed.err.count("pathh") == 1


def test_json_has_what_is_structured(call: Call, user: User) -> None:
    text = OPEN.replace('["echo", "{timezone}"]', '["echo"]').replace('"command"', '"python"')
    file = user.ensemble("open", text.replace('argv = ["echo"]', 'function = "./open.py:convert"'))
    (file.parent / "open.py").write_text("def convert(context, arguments):\n    return {'hour': 3}\n")
    done = json.loads(call("invoke", "open.convert", "timezone=a", "--format", "json").out)
    assert (done["structured"], done["output"]) == ({"hour": 3}, '{"hour":3}')
    (user.workspace / "a.txt").write_text('{"no": "structure"}')
    assert "structured" not in json.loads(call("invoke", "io.read_file", "path=a.txt", "--format", "json").out)


def test_arguments_may_come_as_json(user: User) -> None:
    (user.workspace / "a.txt").write_text("one")
    given = json.dumps({"path": "a.txt"})
    assert user.call("invoke", "io.read_file", "--arguments", given).stdout == "one\n"
    assert user.run("invoke", "io.read_file", "--arguments", "-", text=given).stdout == "one\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["io.read_file", "a.txt"], exit_codes.INPUT, ["key=value", "'a.txt'"]),
        (["io.read_file", "=a.txt"], exit_codes.INPUT, ["key=value"]),
        (["io.read_file", "path=a", "path=b"], exit_codes.INPUT, ["'path'", "twice"]),
        (["io.read_file", "path=a", "--arguments", "{}"], exit_codes.INPUT, ["either"]),
        (["io.read_file", "--arguments", '{"path": '], exit_codes.INPUT, ["--arguments", "JSON"]),
        (["io.read_file", "--arguments", '{"path": "a", "path": "b"}'], exit_codes.INPUT, ["--arguments", "path"]),
        (["io.read_file", "--arguments", "[]"], exit_codes.INPUT, ["object"]),
        (["oi.read_file", "path=a"], exit_codes.INPUT, ["'oi'", "io"]),
        (["io.read_fil", "path=a"], exit_codes.INPUT, ["read_fil", "read_file"]),
        (["io.read_file", "paht=a"], exit_codes.REFUSED, ["paht", "path"]),
        (["io.read_file", "path=a", "start_line=one"], exit_codes.REFUSED, ["start_line", "integer"]),
        (["io.read_file", "path=a.txt"], exit_codes.REFUSED, ["a.txt"]),
        (["io.read_file", "path=../a.txt"], exit_codes.REFUSED, [".."]),
    ],
)
def test_what_goes_wrong_is_said(call: Call, user: User, arguments: list[str], code: int, words: list[str]) -> None:
    done = call("invoke", *arguments)
    assert (done.code, done.out) == (code, "")
    for word in words:
        assert word in done.err
    assert list(user.workspace.iterdir()) == []


def test_yes_approves_this_call_and_nothing_that_is_denied(call: Call, user: User) -> None:
    arguments = ("invoke", "io.write_file", "path=a.txt", "content=x", "--yes")
    assert call(*arguments).code == 0
    assert (user.workspace / "a.txt").read_text() == "x"
    user.configure('[confirmation]\ndeny = ["io.write_file"]\n')
    done = call(*arguments)
    assert done.code == exit_codes.REFUSED
    assert "[confirmation] deny" in done.err


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("\x04", 1)])
def test_at_a_terminal_somebody_is_asked(user: User, typed: str, code: int) -> None:
    # What stands in the arguments cannot draw on the terminal that asks about them.
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=\x1b[2Jx") as screen:
        screen.wait_for("io.write_file wants to run")
        screen.wait_for("Allow it?")
        screen.type("perhaps\n")
        screen.wait_for("'perhaps' is no answer. Type y for yes, n for no.")
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type(typed)
        assert screen.end() == code
        assert "\x1b[2J" not in screen.text
        assert typed != "n\n" or "io.write_file was denied at the terminal and did not run." in screen.text
        assert (user.workspace / "a.txt").exists() is (code == 0)


def test_what_was_typed_before_the_question_is_no_answer(user: User) -> None:
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=x") as screen:
        screen.type("y\n")
        screen.wait_for("Allow it?")
        screen.type("n\n")
        assert screen.end() == exit_codes.REFUSED
    assert list(user.workspace.iterdir()) == []
