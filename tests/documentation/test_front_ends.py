"""The page about front ends: its server runs as printed, and one conversation goes on over all of its interfaces."""

import json
import re
import shlex
import shutil
import urllib.request
from typing import Any

from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.ai_sdk_client import Client
from tests.support.command_line import User, wait_for
from tests.support.users import user as user  # noqa: PLC0414  a fixture

EXAMPLES = DOCUMENTATION / "examples"


def send(url: str, body: Any = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"content-type": "application/json"})) as answer:
        return answer.read()  # type: ignore[no-any-return]


def test_one_conversation_over_all_interfaces(user: User) -> None:
    (start,) = texts("tutorials/front-ends", "console")
    _, program, settings, pages, port = shlex.split(start.removeprefix("$ "))
    shutil.copytree(EXAMPLES / "chat-application", user.workspace, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "front-ends" / program, user.workspace)
    (user.workspace / pages).mkdir()
    (user.workspace / pages / "index.html").write_text("<p>The page.</p>")
    written = user.workspace / settings
    with user.rehearse("shop.toml") as urls:
        written.write_text(re.sub(r"http://\S+(?=\")", urls["openai-chat"], written.read_text()))
        with user.python(program, settings, pages, port.replace("8080", "0")) as process:
            try:
                url = wait_for(process, r"running on (http://\S+)")[1]
                assert send(url) == b"<p>The page.</p>"
                said = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Cancel the lamp, please."}]}
                client = Client(6).read(send(f"{url}/api/chat", {"id": "first", "messages": [said]}))
                assert client.parts("dynamic-tool")[-1]["state"] == "approval-requested"
                # The same question, in the other interfaces.
                asked = json.loads(send(f"{url}/agui/messages?threadId=first"))["interrupts"]
                (one,) = json.loads(send(f"{url}/native/conversations"))["conversations"]
                native = f"{url}/native/conversations/{one['identifier']}"
                (question,) = json.loads(send(native))["questions"]
                assert [interrupt["toolCallId"] for interrupt in asked] == [question["invocation"]]
                resume = [{"interruptId": asked[0]["id"], "status": "resolved", "payload": {"approved": False}}]
                fixed = {"state": {}, "tools": [], "context": [], "forwardedProps": {}, "messages": []}
                ran = send(f"{url}/agui/run", {"threadId": "first", "runId": "r", "resume": resume, **fixed})
                assert b"RUN_FINISHED" in ran
                assert json.loads(send(native))["questions"] == []
            finally:
                process.terminate()
                process.communicate(timeout=60)


def test_all_files_are_printed() -> None:
    page = (DOCUMENTATION / "tutorials" / "front-ends.rst").read_text()
    printed = set(re.findall(r"literalinclude:: \.\./examples/front-ends/(\S+)", page))
    assert printed == {one.name for one in (EXAMPLES / "front-ends").iterdir() if one.is_file()}
