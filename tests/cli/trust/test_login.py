"""``ripieno login`` and ``ripieno logout``, and what ``ripieno doctor`` says of sign-ins, with real servers."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
from collections.abc import Generator

import pytest

from tests.support.authorization_server import MARK, Browser, Place, place
from tests.support.command_line import Screen, User
from tests.support.users import Call


@pytest.fixture
def there(user: User) -> Generator[Place, None, None]:
    """Servers, and an optional ensemble of this user that wants to be signed in to."""
    with place() as found:
        user.ensemble("web", text(found))
        user.configure('[ensembles]\nenabled = ["web"]\n')
        yield found


def text(there: Place, oauth: str = 'oauth = { grant = "authorization_code" }', name: str = "web") -> str:
    url = there.resource.url
    head = f'[ensemble]\nname = "{name}"\nrequired = false\n[connection]\norigin = "mcp"\nurl = "{url}"\n'
    return f"{head}{oauth}\n"


@contextlib.contextmanager
def signing_in(user: User, *arguments: str) -> Generator[tuple["subprocess.Popen[str]", str, str], None, None]:
    """A command that waits for a person, the page, and what it said before that."""
    with user.start("login", *arguments) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"http\S+", line):
                yield process, found[0], said
                return
        pytest.fail(f"It named no page: {said}")


def sign_in(user: User, *arguments: str) -> tuple[int, str, str]:
    """The exit code, output and errors of a sign-in to which the person agrees."""
    with signing_in(user, "web", *arguments) as (process, page, said):
        Browser().go(page)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, said + err


def test_the_life_of_a_sign_in(user: User, call: Call, there: Place) -> None:
    done = call("invoke", "web.who")
    assert done.code != 0
    assert "Run: ripieno login web" in done.err
    done = call("doctor", "--no-connect")
    assert "not signed in" in done.out
    assert "ripieno login web" in done.out

    code, out, err = sign_in(user)
    assert (code, out.splitlines()[0]) == (0, "Signed in to web.")
    for line in (f"issuer {there.authority.url}", f"resource {there.resource.url}", "scope read", "tools 2"):
        assert line in re.sub(" +", " ", out)
    assert re.search(r"expires +\d{4}-\d\d-\d\d \d\d:\d\d UTC, renewed automatically", out)
    assert MARK not in out + err

    done = call("invoke", "web.who", "--yes")
    assert (done.code, done.out) == (0, "alice\n")
    done = call("doctor", "--no-connect", "--format", "json")
    (fact,) = json.loads(done.out)["sign_ins"]
    assert (fact["name"], fact["signed_in"], fact["issuer"]) == ("web", True, there.authority.url)
    assert MARK not in done.out
    assert there.authority.url in call("doctor", "--no-connect", "--full").out

    done = call("logout", "web")
    where = there.authority.url
    assert (done.code, done.out) == (0, f"Signed out of web at {where}: the tokens are revoked and deleted.\n")
    assert there.authority.count("/revoke") == 1
    assert list((user.state / "tokens").glob("*.json")) == []
    done = call("logout", "web")
    assert (done.code, done.out) == (0, "You were not signed in to web.\n")


def test_many_programs_renew_once(user: User, there: Place) -> None:
    sign_in(user)
    (file,) = (user.state / "tokens").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires_at": 1.0}))
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(user.start("invoke", "web.who", "--yes")) for _ in range(3)]
        assert [process.communicate(timeout=60)[0] for process in started] == ["alice\n"] * 3
    assert there.authority.count("/token") == 2
    assert json.loads(file.read_text())["expires_at"] > 1


def test_it_needs_not_play(user: User, there: Place) -> None:
    user.configure("[ensembles]\nenabled = []\n")
    code, out, _ = sign_in(user)
    assert (code, out.splitlines()[0]) == (0, "Signed in to web.")


def test_a_no_is_told(user: User, there: Place) -> None:
    there.authority.denies = True
    code, out, err = sign_in(user)
    assert (code, out) == (1, "")
    assert "The sign-in was denied (access_denied: No.)." in err


def test_nobody_comes(user: User, call: Call, there: Place) -> None:
    done = call("login", "web", "--timeout", "1")
    assert (done.code, done.out) == (1, "")
    assert "no sign-in was completed within 1 s" in done.err


def test_an_interrupt_ends_it(user: User, there: Place) -> None:
    with signing_in(user, "web", "--no-browser") as (process, _, _):
        port = int(there.authority.last("/register")["redirect_uri"].split(":")[2].split("/")[0])
        socket.create_connection(("127.0.0.1", port)).close()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_could_not_be_revoked_is_said(user: User, call: Call, there: Place) -> None:
    sign_in(user)
    there.authority.revokes = 500
    done = call("logout", "web")
    assert done.code == 0
    assert "could not be revoked: the authorization server answered 500" in done.err
    assert done.out.endswith("the tokens are deleted.\n")


@pytest.mark.parametrize(
    ("name", "oauth", "says"),
    [
        ("web", "", "authorization_code"),
        ("wbe", 'oauth = { grant = "authorization_code" }', "'web'"),
        ("web", 'oauth = { grant = "authorization_code", client_secret = "x" }', "client_secret needs client_id"),
    ],
    ids=["other", "unknown", "wrong"],
)
def test_where_nobody_can_sign_in(  # noqa: PLR0917  pytest names them
    user: User, call: Call, there: Place, name: str, oauth: str, says: str
) -> None:
    user.ensemble("web", text(there, oauth))
    for command in ("login", "logout"):
        done = call(command, name)
        assert (done.code, done.out) == (2, "")
        assert says in done.err


def test_a_browser_is_opened_where_there_is_a_terminal(user: User, there: Place, tmp_path: pathlib.Path) -> None:
    """The one that ``BROWSER`` names goes before a system's own, on every system."""
    shown = tmp_path / "shown"
    os.mkfifo(shown)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {shown}\n')
    browser.chmod(0o755)
    with Screen(user, "login", "web", BROWSER=str(browser)) as screen:
        Browser().go(shown.read_text())
        assert screen.end() == 0
        assert "Signed in to web." in screen.text
