"""The tutorial of a chat application: its program runs as printed, for two users, with an approval and a restart."""

import json
import re
import shlex
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.command_line import User, wait_for
from tests.support.users import user as user  # noqa: PLC0414  a fixture

SCORE = """
[score]
name = "chat"
[[turns]]
[[turns.calls]]
tool = "write_file"
label = "it"
[turns.calls.arguments]
path = "note.txt"
content = "Remember."

[[turns]]
text = "Written: {it}"
"""


def post(url: str, **message: Any) -> list[dict[str, Any]]:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(message).encode())) as answer:
        return [json.loads(line) for line in answer]


@contextmanager
def serving(user: User, command: str) -> Iterator[str]:
    """The program under way; its address."""
    _, _, *arguments = shlex.split(command.removeprefix("$ ").replace("8080", "0"))
    with user.python(str(DOCUMENTATION / "examples" / "chat" / "chat.py"), *arguments) as process:
        try:
            yield wait_for(process, r"running on (http://\S+)")[1]
        finally:
            process.terminate()
            process.communicate(timeout=60)


def body(command: str) -> Any:
    """What a printed ``curl`` sends."""
    return json.loads(shlex.split(command)[3])


def test_the_program(user: User) -> None:
    settings, start, said, answered = texts("tutorials/chat-application", "toml", "console", "console", "console")
    (user.workspace / "score.toml").write_text(SCORE)
    with user.rehearse("score.toml") as urls:
        settings = re.sub(r"http://\S+(?=\")", urls["openai-chat"], settings)
        (user.workspace / "chat.toml").write_text(settings)
        with serving(user, start) as url:
            events = post(f"{url}/alice/first", **body(said))
            (asked,) = [one for one in events if one["type"] == "ConfirmationRequested"]
            assert events[-1]["finish"] == "open"
            assert "+Remember." in asked["request"]["presentation"]["change"]
            assert len(asked["request"]["presentation"]["digest"]) == 64
            assert "approve" in asked["request"]["choices"]
            (busy,) = post(f"{url}/Alice/first", **body(said))
            assert busy["type"] == "Error"
            declined = post(f"{url}/bob/first", **body(said)) and post(f"{url}/bob/first", say="Rather not.")
            assert declined[-1]["type"] == "ConductEnded"
        data = user.workspace / "data"
        assert not list(data.rglob("note.txt"))
        with serving(user, start) as url:
            answers = body(answered)["answers"]
            assert list(answers.values()) == ["approve"]
            events = post(f"{url}/alice/first", answers={asked["invocation"]["identifier"]: "approve"})
            assert events[-1]["finish"] == "stop"
            assert (data / "users" / "alice" / "note.txt").read_text() == "Remember."
            events = post(f"{url}/alice/first", say="Thanks.")
            assert events[-1]["finish"] in ("stop", "open")
    assert [path.parent.name for path in data.rglob("note.txt")] == ["alice"]
