"""``ripieno invoke`` on a real server, as a user at a terminal and in a pipe: images, structures, progress."""

import base64
import json
import pathlib

import pytest

from tests.real.playing import Stage, marked
from tests.support.command_line import Screen, User


@pytest.fixture
def prefix(stage: Stage, user: User, node_servers: pathlib.Path) -> tuple[str, ...]:
    """The beginning of a command that plays the server everything, which is ended with it."""
    stage.declare("everything", [node_servers / "mcp-server-everything", "stdio"])
    return ("invoke", "--config", str(stage.configuration))


def test_an_image_is_told_of_and_the_text_stays_clean(user: User, prefix: tuple[str, ...]) -> None:
    done = user.run(*prefix, "everything.get-tiny-image")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Here's the image you requested:\nThe image above is the MCP logo.\n"
    told, advice = done.stderr.splitlines()
    assert told.startswith("[image/png, ")
    assert told.endswith(" bytes]")
    assert "--format json" in advice


def test_json_has_the_bytes_of_an_image(user: User, prefix: tuple[str, ...]) -> None:
    done = user.run(*prefix, "everything.get-tiny-image", "--format", "json")
    first, image, last = json.loads(done.stdout)["content"]
    assert (first["type"], image["type"], last["type"]) == ("text", "image", "text")
    assert image["mime_type"] == "image/png"
    assert base64.b64decode(image["data"], validate=True).startswith(b"\x89PNG")
    assert done.stderr == ""


def test_at_a_terminal_an_image_stands_between_its_neighbours(user: User, prefix: tuple[str, ...]) -> None:
    with Screen(user, *prefix, "everything.get-tiny-image") as screen:
        screen.wait_for("Here's the image you requested:\r\n[image/png, ")
        screen.wait_for(" bytes]\r\nThe image above is the MCP logo.\r\n")
        assert screen.end() == 0


def test_a_structure_is_json_on_one_line(user: User, prefix: tuple[str, ...]) -> None:
    done = user.run(*prefix, "everything.get-structured-content", "location=Chicago")
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["humidity"] == 82
    whole = json.loads(
        user.run(*prefix, "everything.get-structured-content", "location=Chicago", "--format", "json").stdout
    )
    assert json.loads(whole["output"])["humidity"] == 82


def test_progress_goes_to_standard_error(stage: Stage, user: User, prefix: tuple[str, ...]) -> None:
    done = user.run(*prefix, "everything.trigger-long-running-operation", "duration=1", "steps=2")
    assert done.stdout == "Long running operation completed. Duration: 1 seconds, Steps: 2.\n"
    assert done.stderr.splitlines() == [
        ". everything.trigger-long-running-operation 1 of 2",
        ". everything.trigger-long-running-operation 2 of 2",
    ]


def test_nothing_is_left_of_a_server(stage: Stage, user: User, node_servers: pathlib.Path) -> None:
    mark = stage.declare("everything", [node_servers / "mcp-server-everything", "stdio"])
    done = user.run("tools", "--config", str(stage.configuration))
    assert done.returncode == 0, done.stderr
    assert "get-tiny-image" in done.stdout
    assert marked(mark) == {}
