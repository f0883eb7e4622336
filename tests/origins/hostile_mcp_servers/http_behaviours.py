"""Behaviours that only a server over HTTP can have: statuses, headers, bodies, sessions and streams of events."""

import gzip
import json
import time
import zlib
from collections.abc import Callable
from typing import cast

from tests.origins.hostile_mcp_servers.calls import CALL, MIB
from tests.origins.hostile_mcp_servers.exchanges import Exchange, on
from tests.origins.hostile_mcp_servers.handshakes import FIRST, GOOD, INITIALIZE
from tests.origins.hostile_mcp_servers.http_server import Post

JSON = "Content-Type: application/json\r\n"
EVENTS = "Content-Type: text/event-stream\r\n"
COMMENT = b": still here\n\n"


def posted(*methods: str, name: str = "") -> Callable[[Callable[[Post], object]], Callable[[Post], object]]:
    """As ``on``, for behaviours that need the request as HTTP has it."""

    def register(behaviour: Callable[[Post], object]) -> Callable[[Post], object]:
        on(*methods, name=name or behaviour.__name__)(cast("Callable[[Exchange], None]", behaviour))
        return behaviour

    return register


def posts(*methods: str, **behaviours: Callable[[Post], object]) -> None:
    """As ``behave``, for behaviours that need the request as HTTP has it."""
    for name, behaviour in behaviours.items():
        posted(*methods, name=name)(behaviour)


def _said(post: Post) -> bytes:
    return json.dumps(post.said("it")).encode()


for _name, _status in {
    "301": "301 Moved Permanently",
    "307": "307 Temporary Redirect",
    "401": "401 Unauthorized",
    "403": "403 Forbidden",
    "404": "404 Not Found",
    "405": "405 Method Not Allowed",
    "418": "418 \x1b[31mTeapot",
    "429": "429 Too Many Requests",
    "500": "500 Internal Server Error",
    "503": "503 Service Unavailable",
    "202": "202 Accepted",
    "204": "204 No Content",
    "206": "206 Partial Content",
    "299": "299 Strange",
    "600": "600 Beyond",
}.items():

    def _state(post: Post, status: str = _status) -> None:
        to = "Location: http://127.0.0.1:9/elsewhere\r\n" if status.startswith("3") else ""
        post.whole(status, f"{to}Retry-After: 1000\r\n")

    posted(*FIRST, name=f"status_{_name}_first")(_state)
    posted(CALL, name=f"status_{_name}_in_call")(_state)


def _endlessly(post: Post, status: str, headers: str, data: bytes, pause: float = 0.0) -> None:
    post.head(status, headers)
    while True:
        post.connection.sendall(data)
        time.sleep(pause)


def _cut(post: Post, headers: str, body: bytes) -> None:
    """A body that ends otherwise than its headers say."""
    post.head("200 OK", f"{JSON}{headers}\r\n")
    post.connection.sendall(body)


@posted(CALL)
def slow_json(post: Post) -> None:
    body = _said(post)
    post.head("200 OK", f"{JSON}Content-Length: {len(body)}\r\n")
    for byte in body:
        post.connection.sendall(bytes((byte,)))
        time.sleep(0.05)


@posted(CALL)
def slow_headers(post: Post) -> None:
    post.connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(1000):
        post.connection.sendall(f"X-{number}: 1\r\n".encode())
        time.sleep(0.05)


@posted(CALL)
def endless_headers(post: Post) -> None:
    post.connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        post.connection.sendall(b"X-Many: 1\r\n" * 1000)


def _bomb() -> bytes:
    """A GiB of spaces: one block that stands for itself, a thousand times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1024 + packer.flush()


@posted(CALL)
def events_of_other_names(post: Post) -> None:
    for event in (b"endpoint", b"error", b"", b"\x1b[31m"):
        post.write(b"event: " + event + b"\ndata: {}\n\n")
    post.say("it")


@posted(CALL)
def an_event_without_end(post: Post) -> None:
    post.write(b"data: ")
    while True:
        post.write(b"x" * 65536)


@posted(CALL)
def an_event_of_many_lines(post: Post) -> None:
    while True:
        post.write(b"data: x\n" * 1000)


@posted("GET", name="events_resumed_without_end")
def _resumed(post: Post) -> None:
    post.write(b"id: 1\nretry: 0\ndata:\n\n")


posted(CALL, name="events_resumed_without_end")(_resumed)


def _initialized(post: Post, session: str) -> None:
    post.json(json.dumps(post.result(GOOD)).encode(), f"Mcp-Session-Id: {session}\r\n")


for _name, _session in {"controls": "\x01\x7f", "spaces": " a b ", "latin1": "\xe9\xff", "1_mib": "x" * MIB}.items():

    @posted(INITIALIZE, name=f"a_session_of_{_name}")
    def _odd(post: Post, session: str = _session) -> None:
        _initialized(post, session)


@posted("GET", name="a_get_stream_of_nonsense")
def _babbling(post: Post) -> None:
    for data in (b"nonsense", b"[]", b"\xff", b'{"jsonrpc": "2.0", "id": 1, "result": {"forged": 1}}'):
        post.write(b"data: " + data + b"\n\n")
    post.hang()


posts(
    CALL,
    an_error_page_without_end=lambda post: _endlessly(post, "404 Not Found", JSON, b" " * 65536),
    json_without_end=lambda post: _endlessly(post, "200 OK", JSON, b" " * 65536),
    comments_without_end=lambda post: _endlessly(post, "200 OK", EVENTS, COMMENT * 1000),
    rare_comments_without_end=lambda post: _endlessly(post, "200 OK", EVENTS, COMMENT, 0.05),
    length_too_large=lambda post: _cut(post, f"Content-Length: {len(_said(post)) + 100}", _said(post)),
    length_too_small=lambda post: _cut(post, f"Content-Length: {len(_said(post)) - 10}", _said(post)),
    chunks_cut=lambda post: _cut(post, "Transfer-Encoding: chunked", b'10\r\n{"jsonrpc": "2.0'),
    chunks_that_are_none=lambda post: _cut(post, "Transfer-Encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"),
    redirects_to_itself=lambda post: post.whole(
        "307 Temporary Redirect", f"Location: http://{post.headers['host']}/{post.era}/redirects_to_itself\r\n"
    ),
    an_error_page=lambda post: post.whole("500 Oh", JSON, b'{"error": "oh"}'),
    html=lambda post: post.whole("200 OK", "Content-Type: text/html\r\n", b"<p>It works!</p>"),
    no_content_type=lambda post: post.whole("200 OK", "", _said(post)),
    json_and_nothing_else=lambda post: post.json(_said(post)),
    json_of_another_id=lambda post: post.json(json.dumps({**post.said("of another"), "id": 999_999}).encode()),
    json_that_is_a_notification=lambda post: post.json(
        b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}'
    ),
    json_that_is_a_request=lambda post: post.json(b'{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}'),
    json_that_is_empty=lambda post: post.json(b""),
    json_that_is_broken=lambda post: post.json(_said(post)[:-5]),
    json_in_a_batch=lambda post: post.json(b"[" + _said(post) + b"]"),
    json_that_is_nested=lambda post: post.json(b"[" * MIB),
    json_in_latin1=lambda post: post.whole(
        "200 OK", "Content-Type: application/json; charset=utf-16\r\n", b'{"a": "\xff"}'
    ),
    json_of_64_mib=lambda post: post.json(json.dumps(post.said("x" * (64 * MIB))).encode()),
    json_of_many_lists=lambda post: post.json(
        b'{"jsonrpc": "2.0", "result": {"content": [], "a": [' + b"[]," * (5 * MIB) + b"1]}}"
    ),
    headers_of_1_mib=lambda post: post.whole("200 OK", f"{JSON}X-Long: {'x' * MIB}\r\n", _said(post)),
    headers_that_are_none=lambda post: post.connection.sendall(b"HTTP/1.1 200 OK\r\nno colon\r\n\0: \xff\r\n\r\n"),
    no_http=lambda post: post.connection.sendall(b"SSH-2.0-OpenSSH\r\n"),
    length_that_is_none=lambda post: post.head("200 OK", f"{JSON}Content-Length: many\r\n"),
    compressed_in_bounds=lambda post: post.json(gzip.compress(_said(post)), "Content-Encoding: gzip\r\n"),
    a_bomb_as_json=lambda post: post.json(_bomb(), "Content-Encoding: gzip\r\n"),
    a_bomb_as_events=lambda post: post.whole("200 OK", f"{EVENTS}Content-Encoding: gzip\r\n", _bomb()),
    a_bomb_as_an_error=lambda post: post.whole("400 Bad Request", f"{JSON}Content-Encoding: gzip\r\n", _bomb()),
    an_unknown_encoding=lambda post: post.json(_said(post), "Content-Encoding: snake\r\n"),
    an_answer_under_another_name=lambda post: post.write(b"event: answer\ndata: " + _said(post) + b"\n\n"),
    events_without_an_answer=lambda post: post.notify("notifications/message", level="info", data=1),
    events_to_be_resumed=lambda post: post.write(b"id: 1\nretry: 1\ndata:\n\n"),
    events_to_be_resumed_next_year=lambda post: post.write(b"id: 1\nretry: 99999999999\ndata:\n\n"),
    an_event_id_with_controls=lambda post: post.write(b"id: \x01\x1b[31m\xff\nretry: 1\ndata:\n\n"),
    another_session=lambda post: post.json(_said(post), "Mcp-Session-Id: another\r\n"),
    the_session_is_lost=lambda post: post.whole("404 Not Found"),
)
posts(*FIRST, a_bomb_at_first=lambda post: post.json(_bomb(), "Content-Encoding: gzip\r\n"))
posts(
    "GET",
    an_endless_get_stream=lambda post: _endlessly(post, "200 OK", EVENTS, COMMENT * 1000, 0.01),
    a_get_stream_that_ends_at_once=lambda post: post.write(b"retry: 0\ndata:\n\n"),
)
posts("DELETE", never_lets_go=lambda post: post.hang())
