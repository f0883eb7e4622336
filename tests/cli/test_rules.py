"""Rules as a person meets them: what the command line tells of them, and the question at a real terminal."""

import json

from tests.support.command_line import Screen, User
from tests.support.users import Call

APPROVE = "io.write_file( path = src/**, mode=append )"
RULES = f'[confirmation]\ndeny = ["io.write_file(path=docs/**)"]\napprove = ["{APPROVE}"]\n'


def configure(user: User, text: str) -> str:
    file = user.workspace.parent / "rules.toml"
    file.write_text(text)
    return str(file)


def test_doctor_says_what_applies_to_each_tool(call: Call, user: User) -> None:
    file = configure(user, RULES)
    done = call("doctor", "--policy", "--config", file, "--format", "json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    tools = {one["tool"]: one for one in facts["tools"]}
    assert {name: one["action"] for name, one in tools.items()} == {
        "io.list_directory": "run",
        "io.read_file": "run",
        "io.write_file": "depends",
    }
    assert tools["io.write_file"]["reason"] == (
        "deny where [confirmation] deny has 'io.write_file(path=docs/**)'; "
        "run where [confirmation] approve has 'io.write_file( path = src/**, mode=append )'; "
        "otherwise ask, because its effect is write."
    )
    shown = call("doctor", "--policy", "--no-connect", "--config", file)
    assert [line.split()[:3] for line in shown.out.splitlines()[:2]] == [
        ["TOOL", "EFFECT", "CALLS"],
        ["io.list_directory", "read", "run"],
    ]
    listed = call("tools", "--config", file)
    (line,) = [line for line in listed.out.splitlines() if line.startswith("write_file")]
    assert line.split()[1:4] == ["io.write_file", "write", "depends"]


def test_a_pattern_that_cannot_be_read_stops_the_start_with_its_line(call: Call, user: User) -> None:
    file = configure(user, '[confirmation]\ndeny = [\n  "io.read_file",\n  "io.x(path=docs/**",\n]\n')
    for command in (("doctor", "--policy"), ("tools",), ("invoke", "io.read_file", "path=a")):
        done = call(*command, "--config", file)
        assert done.code == 2
        assert f"{file}:4: error: deny[1]: The parenthesis is not closed" in done.err


def test_nothing_is_approved_that_was_not_seen_whole(user: User) -> None:
    content = "".join(f"line {number}\n" for number in range(2_000))
    with Screen(user, "invoke", "io.write_file", "path=a.txt", f"content={content}") as screen:
        screen.wait_for("It would change:")
        for line in ("--- /dev/null", "+++ a.txt", "@@ -0,0 +1,2000 @@", "+line 0", "+line 36"):
            screen.wait_for(f"| {line}\r")
        screen.wait_for("... 1963 more lines: v shows all\r")
        screen.wait_for("bytes are not shown here")
        screen.wait_for("Allow it? [y/N, v: view all, e: edit] ")
        screen.type("y\n")
        screen.wait_for("View the whole call first: v.")
        screen.wait_for("Allow it?")
        screen.type("v\n")
        for number in (0, 777, 1_999):
            screen.wait_for(f"+line {number}\r")
        screen.wait_for("Allow it?")
        assert not (user.workspace / "a.txt").exists()
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == content


def test_arguments_are_edited_as_a_line(user: User) -> None:
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=x") as screen:
        screen.wait_for("Allow it?")
        screen.type("e\n")
        screen.wait_for("The arguments, as JSON")
        screen.type("\x15[1]\n")
        screen.wait_for("The arguments must be a JSON object")
        screen.wait_for("The arguments, as JSON")
        screen.type('\x15{"path": "b.txt", "content": "y"}\n')
        screen.wait_for("Allow it?")
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "b.txt").read_text() == "y"
    assert not (user.workspace / "a.txt").exists()


def test_arguments_are_edited_in_the_editor(user: User) -> None:
    editor = user.workspace.parent / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/a.txt/b.txt/" "$1"\n')
    editor.chmod(0o755)
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=x", EDITOR=str(editor)) as screen:
        screen.wait_for("Allow it?")
        screen.type("e\n")
        screen.wait_for("Allow it?")
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "b.txt").read_text() == "x"
    assert not (user.workspace / "a.txt").exists()
