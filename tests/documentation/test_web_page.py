"""The tutorial about the web page: each of its commands serves the page, and its errors are the real ones."""

import re
import shlex
import signal

import httpx2
import pytest

from tests.documentation.code_blocks import DOCUMENTATION, blocks
from tests.support.command_line import User, wait_for

PAGE = (DOCUMENTATION / "tutorials" / "web-page.rst").read_text(encoding="utf-8")
COMMANDS = [
    line.removeprefix("$ ripieno ")
    for block in blocks("tutorials/web-page")
    for line in block.text.splitlines()
    if line.startswith("$ ripieno ")
]
PROVIDER = '[providers.mine]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_serves_the_page(user: User, command: str) -> None:
    user.configure(f'[model]\ndefault = "mine/x"\n{PROVIDER}')
    # Not at a fixed port or another machine's address; the last of an option counts.
    here = ("--no-browser", "--port", "0", "--host", "127.0.0.1")
    with user.start(*shlex.split(command), *here, WEB_KEY="a-key-of-sixteen-characters") as process:
        url = wait_for(process, r"(http://\S+)/#code=")[1]
        named = re.search(r"--allow-host (\S+)", command)
        name = url.removeprefix("http://") if named is None else named[1]
        scheme = "http" if named is None else "https"
        # As a proxy passes them on.
        headers = {"host": name, "origin": f"{scheme}://{name}"}
        assert httpx2.get(f"{url}/", headers=headers).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize("text", ["This page needs a new link", "421", "Cannot listen on 127.0.0.1, port 8766"])
def test_the_errors_are_named(text: str) -> None:
    assert f"``{text}``" in PAGE


def test_the_error_without_a_journal_is_named(user: User) -> None:
    user.configure(f'[journal]\nenabled = false\n[model]\ndefault = "mine/x"\n{PROVIDER}')
    done = user.call("serve", "web", "--no-browser", "--port", "0")
    sentence = done.stderr.partition("Error: ")[2].partition(". ")[0]
    assert f"``{sentence}``" in PAGE
