"""What a tool asks back, at a real terminal: bad answers are asked for again, and every message has its own line."""

import pytest

from ripieno.cli.common import exit_codes
from tests.support.command_line import Screen, User

TOOLS = """
async def order(context, arguments):
    schema = {
        "type": "object",
        "required": ["size", "where"],
        "properties": {
            "size": {"type": "integer"},
            "where": {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}]},
        },
    }
    return str(await context.inquire("How many?", schema))
"""
SHOP = """
[ensemble]
name = "shop"
[[invokers]]
name = "order"
description = "Orders."
effect = "read"
invocable = { origin = "python", function = "./shop.py:order" }
"""


def open_shop(user: User) -> None:
    file = user.ensemble("shop", SHOP)
    (file.parent / "shop.py").write_text(TOOLS)


def test_a_bad_answer_is_asked_for_again(user: User) -> None:
    open_shop(user)
    with Screen(user, "invoke", "shop.order") as screen:
        screen.wait_for("Answer it? [y/N] ")
        screen.type("y\n")
        screen.wait_for("size [integer]: ")
        screen.type("many\n")
        screen.wait_for("It must be an integer")
        screen.wait_for("size [integer]: ")
        screen.type("3\n")
        screen.wait_for("where [string; one of eu (Europe)]: ")
        screen.type("Europe\n")
        assert screen.end() == 0
        assert "'size': 3" in screen.text
        assert "'where': 'eu'" in screen.text


@pytest.mark.parametrize(("typed", "code"), [("\x04", exit_codes.REFUSED), ("\x03", exit_codes.SIGNAL + 2)])
def test_what_comes_after_a_prompt_that_nobody_answered_begins_a_line(user: User, typed: str, code: int) -> None:
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=x") as screen:
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type(typed)
        assert screen.end() == code
        assert screen.text.removeprefix("^C").startswith("\r\n")
    assert list(user.workspace.iterdir()) == []


def test_edited_arguments_are_shown_before_they_run(user: User) -> None:
    """The line begins with the arguments; wrong ones are asked for again; the diff of the edited call is shown."""
    (user.workspace / "a.txt").write_text("old\n")
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=new") as screen:
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type("e\n")
        screen.wait_for("The arguments, as JSON (empty: unchanged): ")
        screen.wait_for('"content": "new"')
        # Ctrl-U deletes the line.
        screen.type('\x15{"path": "a.txt", "content": 5}\n')
        screen.wait_for("The tool would refuse these arguments: ")
        screen.wait_for("The arguments, as JSON (empty: unchanged): ")
        screen.type('\x15{"path": "a.txt", "content": "other"}\n')
        screen.wait_for("wants to run.")
        screen.wait_for("| -old")
        screen.wait_for("| +other")
        screen.wait_for("Allow it? [y/N, e: edit] ")
        assert (user.workspace / "a.txt").read_text() == "old\n"
        screen.type("y\n")
        assert screen.end() == 0
    assert (user.workspace / "a.txt").read_text() == "other"


def test_edited_arguments_are_not_run_after_a_no(user: User) -> None:
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=new") as screen:
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type("e\n")
        screen.wait_for('"content": "new"')
        screen.type('\x15{"path": "b.txt", "content": "new"}\n')
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type("n\n")
        assert screen.end() == exit_codes.REFUSED
    assert list(user.workspace.iterdir()) == []


def test_an_interrupted_editor_leaves_the_terminal_usable(user: User) -> None:
    with Screen(user, "invoke", "io.write_file", "path=a.txt", "content=x") as screen:
        screen.wait_for("Allow it? [y/N, e: edit] ")
        screen.type("e\n")
        screen.wait_for('"content": "x"')
        screen.type("\x03")
        assert screen.end() == exit_codes.SIGNAL + 2
        assert screen.echoes
