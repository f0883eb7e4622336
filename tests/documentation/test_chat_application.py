"""The tutorial of a chat application: its program runs as printed, for two users, with an approval and a restart."""

import http.cookiejar
import json
import re
import shlex
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.ai_sdk_client import Client
from tests.support.command_line import User, wait_for
from tests.support.users import user as user  # noqa: PLC0414  a fixture

EXAMPLE = DOCUMENTATION / "examples" / "chat-application"
#: Blocks of the tutorial: installing, the scripted model, starting, workers, and the journal.
BLOCKS = ("console", "console", "console", "toml", "python", "console", "console")


class Browser:
    """A browser of one user: it keeps cookies, and sends JSON."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.client = Client(7)
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())).open

    def get(self, path: str) -> Any:
        with self._open(f"{self._url}/{path}") as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> bytes:
        headers = {"content-type": "application/json"}
        with self._open(urllib.request.Request(f"{self._url}/{path}", json.dumps(body).encode(), headers)) as answer:
            return answer.read()  # type: ignore[no-any-return]

    def sign_in(self, name: str) -> None:
        self.post("sign-in", {"user": name, "password": f"{name}'s password"})

    def say(self, text: str) -> Client:
        return self._send({"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]})

    def approve(self) -> Client:
        self.client.respond(True)
        return self._send(self.client.message)

    def _send(self, message: Any) -> Client:
        return self.client.read(self.post("api/chat", {"id": "first", "messages": [message]}))


@contextmanager
def shop(user: User) -> Iterator[None]:
    """The files of the tutorial in the user's folder, and its scripted model at a free port."""
    command = texts("tutorials/chat-application", *BLOCKS)[1]
    _, verb, *configuration, score, option, port = shlex.split(command.removeprefix("$ "))
    assert (verb, *configuration, option) == ("rehearse", "--config", "settings.toml", "--port")
    shutil.copytree(EXAMPLE, user.workspace, dirs_exist_ok=True)
    settings = user.workspace / "settings.toml"
    with user.rehearse(*configuration, score) as urls:
        printed = settings.read_text()
        assert f"http://127.0.0.1:{port}/v1" in printed
        settings.write_text(re.sub(r"http://\S+(?=\")", urls["openai-chat"], printed))
        yield


@contextmanager
def serving(user: User, commands: str, *, killed: bool = False) -> Iterator[str]:
    """The program under way, as the page starts it; its address."""
    secret, start = commands.removeprefix("$ ").split("\n$ ")
    name, _, _ = secret.removeprefix("export ").partition("=")
    _, program, *arguments = shlex.split(start.replace("8080", "0"))
    with user.python(program, *arguments, **{name: "a secret of this test"}) as process:
        try:
            yield wait_for(process, r"running on (http://\S+)")[1]
        finally:
            (process.kill if killed else process.terminate)()
            process.communicate(timeout=60)


def refused(browser: Browser, path: str, body: Any) -> int:
    try:
        browser.post(path, body)
    except urllib.error.HTTPError as error:
        return error.code
    raise AssertionError(f"{path} was not refused")


def test_the_program(user: User) -> None:
    _, _, start, _, _, _, journal = texts("tutorials/chat-application", *BLOCKS)
    with shop(user):
        with serving(user, start) as url:
            ada, bob = Browser(url), Browser(url)
            assert refused(ada, "api/chat", {"id": "first", "messages": []}) == 401
            assert refused(ada, "sign-in", {"user": "ada", "password": "guessed"}) == 401
            assert refused(ada, "sign-in", {"user": "eve", "password": "eve's password"}) == 401
            ada.sign_in("ada")
            bob.sign_in("bob")
            asked = ada.say("Cancel the lamp, please.")
            listed, canceled = asked.parts("dynamic-tool")
            assert [order["article"] for order in json.loads(listed["output"])] == ["a lamp", "a desk"]
            assert canceled["state"] == "approval-requested"
            # The tools are bob's, too; the order is not.
            bob.say("Cancel the lamp, please.")
            assert "no order of this number" in json.dumps(bob.approve().message)
        with serving(user, start) as url:
            ada = Browser(url)
            ada.sign_in("ada")
            ada.client.message = ada.get("api/chat/first/messages")["messages"][-1]
            assert [part["text"] for part in ada.approve().parts("text")] == ["Canceled: a lamp."]
    listed = user.run(*shlex.split(journal.removeprefix("$ ripieno ")))
    assert listed.returncode == 0, listed.stderr
    assert "Cancel the lamp" in listed.stdout


def test_a_killed_server_loses_nothing(user: User) -> None:
    _, _, start, settings, line, work, _ = texts("tutorials/chat-application", *BLOCKS)
    install, work = work.removeprefix("$ ").split("\n$ ")
    assert shlex.split(install) == ["pip", "install", "ripieno[durable]"]
    with shop(user):
        with (user.workspace / "settings.toml").open("a") as file:
            file.write(f"\n{settings}")
        program = user.workspace / "application.py"
        changed, count = re.subn(r"journal = Journal\(.*\nassembly = .*\n", line, program.read_text())
        assert count == 1
        program.write_text(changed)
        with user.start(*shlex.split(work)[1:]) as worker:
            wait_for(worker, "takes submitted runs")
            with serving(user, start, killed=True) as url:
                ada = Browser(url)
                ada.sign_in("ada")
                asked = ada.say("Cancel the lamp, please.")
                assert asked.parts("dynamic-tool")[1]["state"] == "approval-requested"
            with serving(user, start) as url:
                ada = Browser(url)
                ada.sign_in("ada")
                ada.client.message = ada.get("api/chat/first/messages")["messages"][-1]
                assert [part["text"] for part in ada.approve().parts("text")] == ["Canceled: a lamp."]


def test_all_files_are_printed() -> None:
    page = (DOCUMENTATION / "tutorials" / "chat-application.rst").read_text()
    printed = set(re.findall(r"literalinclude:: \.\./examples/chat-application/(\S+)", page))
    made = {"node_modules", "__pycache__", "data"}
    files = (one.relative_to(EXAMPLE) for one in EXAMPLE.rglob("*") if one.is_file())
    assert printed == {one.as_posix() for one in files if not made & set(one.parts) and one.name != "package-lock.json"}
