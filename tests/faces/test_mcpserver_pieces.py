"""Pieces of the MCP server: what it takes out of errors, and which addresses are this machine's."""

import asyncio
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from ripieno.mcpserver import bodies
from ripieno.mcpserver.concealing import Concealer
from ripieno.mcpserver.http import is_loopback

WORKSPACE = pathlib.Path("/tmp/work")
HIDDEN = "(a path outside of the workspace)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no /etc/passwd here", f"no {HIDDEN} here"),
        ("'/etc/passwd': denied", f"'{HIDDEN}': denied"),
        ("PATH (/usr/bin:/bin/x)", f"PATH ({HIDDEN}:{HIDDEN})"),
        ("file:///etc/passwd", f"file://{HIDDEN}"),
        ("/tmp/work/notes.txt.", "/tmp/work/notes.txt."),
        ("/tmp/work/../other", HIDDEN),
        ("/tmp/workshop", HIDDEN),
        ("https://a.example/etc/passwd", "https://a.example/etc/passwd"),
        ("/no-such-root/items", "/no-such-root/items"),
        ("notes/etc/passwd and 1/2", "notes/etc/passwd and 1/2"),
        ("/etc/said.", "/etc/said."),
        ("/etc/said/more", HIDDEN),
    ],
)
def test_paths_of_this_machine_are_concealed(text: str, shown: str) -> None:
    conceal = Concealer(workspace=WORKSPACE, arguments={"path": ["/etc/said"]})
    assert conceal(text) == shown


@given(st.text(), st.sampled_from(["/etc", "/usr/lib/x", "/tmp/other", "/proc/self/environ"]))
def test_a_path_between_spaces_never_stays(around: str, path: str) -> None:
    conceal = Concealer(workspace=WORKSPACE, arguments={})
    assert f" {path} " not in conceal(f"{around} {path} {around}")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.01)
    sent: list[Message] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("It must not see the request.")

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await bodies.StrictBodies(application)({"type": "http", "method": "POST"}, receive, send)
    assert sent[0]["status"] == 408


async def test_a_client_that_leaves_is_left_alone() -> None:
    async def never(*details: object) -> None:
        raise AssertionError("Nobody is there.")

    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    await bodies.StrictBodies(never)({"type": "http", "method": "POST"}, receive, never)
