"""Pieces of the MCP server: what it takes out of errors, which addresses are this machine's, and what it reads."""

import asyncio
import pathlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import INVALID_REQUEST
from starlette.types import Message, Receive, Scope, Send

from ripieno.origins.mcp.transports.framing import LINE_LIMIT, VALUES
from ripieno.servers.http.listeners import is_loopback
from ripieno.servers.mcp import http
from ripieno.servers.mcp.messages import Refused, read
from ripieno.servers.mcp.results import Concealer

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


def test_loopback_is_told_from_the_rest() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.5", "localhost.example", "")))


LISTS = b"[" + b"[]," * 200_000 + b"0]"
PING = b'"method": "ping", "params": {"_meta": {"id": 2, "x": ' + LISTS + b"}}"


@pytest.mark.parametrize(
    ("message", "identifier"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, ' + PING + b"}", 7),
        (b'{"id":"a-b", "jsonrpc":"2.0", ' + PING + b"}", "a-b"),
        (b"{" + PING + b', "jsonrpc": "2.0", "id": 7 }\n', 7),
        (b'{"jsonrpc": "2.0", ' + PING + b"}", None),
        (b'{"jsonrpc": "2.0", "id": "\xff", ' + PING + b"}", None),
        (b'{"jsonrpc": "2.0", "id": 007, ' + PING + b"}", None),
        (b"{" + PING + b', "jsonrpc": "2.0", "id": [7]}', None),
        (LISTS, None),
    ],
)
def test_a_message_of_too_many_values_is_refused_unread(message: bytes, identifier: object) -> None:
    began = time.process_time()
    with pytest.raises(Refused, match="A message may have at most 100000 values") as refused:
        read(message, limit=LINE_LIMIT)
    # Measured: 0.02 s, and half a second to read it.
    assert time.process_time() - began < 0.3
    answer = refused.value.answer
    assert (answer.id, answer.error.code) == (identifier, INVALID_REQUEST)


def test_a_message_of_as_many_values_as_it_may_have_is_read() -> None:
    text = b'{"a": [%s]}' % b",".join([b"1"] * (VALUES - 2))
    assert read(text, limit=LINE_LIMIT) == {"a": [1] * (VALUES - 2)}


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.01)
    sent: list[Message] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("It must not see the request.")

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await http.StrictBodies(application)({"type": "http", "method": "POST"}, receive, send)
    assert sent[0]["status"] == 408


async def test_a_client_that_leaves_is_left_alone() -> None:
    async def never(*details: object) -> None:
        raise AssertionError("Nobody is there.")

    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    await http.StrictBodies(never)({"type": "http", "method": "POST"}, receive, never)
