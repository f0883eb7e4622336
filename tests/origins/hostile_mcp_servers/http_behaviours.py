"""Behaviours that only a server over HTTP can have: statuses, headers, bodies, sessions and streams of events."""

import gzip
import json
import time
import zlib
from collections.abc import Callable
from typing import cast

from tests.origins.hostile_mcp_servers.calls import CALL, MIB
from tests.origins.hostile_mcp_servers.exchanges import LEGACY, Exchange
from tests.origins.hostile_mcp_servers.handshakes import FIRST, INITIALIZE
from tests.origins.hostile_mcp_servers.http_server import Post
from tests.origins.hostile_mcp_servers.registry import on

JSON = "Content-Type: application/json\r\n"
EVENTS = "Content-Type: text/event-stream\r\n"


def posted(*methods: str, name: str = "") -> Callable[[Callable[[Post], None]], Callable[[Post], None]]:
    """As ``on``, for behaviours that need the request as HTTP has it."""

    def register(behaviour: Callable[[Post], None]) -> Callable[[Post], None]:
        on(*methods, name=name or behaviour.__name__)(cast("Callable[[Exchange], None]", behaviour))
        return behaviour

    return register


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


@posted(CALL)
def redirects_to_itself(post: Post) -> None:
    post.whole("307 Temporary Redirect", f"Location: http://{post.headers['host']}/{post.era}/redirects_to_itself\r\n")


@posted(CALL)
def an_error_page(post: Post) -> None:
    post.whole("500 Oh", JSON, b'{"error": "oh"}')


@posted(CALL)
def an_error_page_without_end(post: Post) -> None:
    post.head("404 Not Found", JSON)
    while True:
        post.connection.sendall(b" " * 65536)


@posted(CALL)
def html(post: Post) -> None:
    post.whole("200 OK", "Content-Type: text/html\r\n", b"<p>It works!</p>")


@posted(CALL)
def no_content_type(post: Post) -> None:
    post.whole("200 OK", "", _said(post))


@posted(CALL)
def json_and_nothing_else(post: Post) -> None:
    post.json(_said(post))


@posted(CALL)
def json_of_another_id(post: Post) -> None:
    post.json(json.dumps({**post.said("of another"), "id": 999_999}).encode())


@posted(CALL)
def json_that_is_a_notification(post: Post) -> None:
    post.json(b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}')


@posted(CALL)
def json_that_is_a_request(post: Post) -> None:
    post.json(b'{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}')


@posted(CALL)
def json_that_is_empty(post: Post) -> None:
    post.json(b"")


@posted(CALL)
def json_that_is_broken(post: Post) -> None:
    post.json(_said(post)[:-5])


@posted(CALL)
def json_in_a_batch(post: Post) -> None:
    post.json(b"[" + _said(post) + b"]")


@posted(CALL)
def json_that_is_nested(post: Post) -> None:
    post.json(b"[" * MIB)


@posted(CALL)
def json_in_latin1(post: Post) -> None:
    post.whole("200 OK", "Content-Type: application/json; charset=utf-16\r\n", b'{"a": "\xff"}')


@posted(CALL)
def json_of_64_mib(post: Post) -> None:
    post.json(json.dumps(post.said("x" * (64 * MIB))).encode())


@posted(CALL)
def json_of_many_lists(post: Post) -> None:
    post.json(b'{"jsonrpc": "2.0", "result": {"content": [], "a": [' + b"[]," * (5 * MIB) + b"1]}}")


@posted(CALL)
def json_without_end(post: Post) -> None:
    post.head("200 OK", JSON)
    while True:
        post.connection.sendall(b" " * 65536)


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


@posted(CALL)
def headers_of_1_mib(post: Post) -> None:
    post.whole("200 OK", f"{JSON}X-Long: {'x' * MIB}\r\n", _said(post))


@posted(CALL)
def headers_that_are_none(post: Post) -> None:
    post.connection.sendall(b"HTTP/1.1 200 OK\r\nno colon\r\n\0: \xff\r\n\r\n")


@posted(CALL)
def no_http(post: Post) -> None:
    post.connection.sendall(b"SSH-2.0-OpenSSH\r\n")


@posted(CALL)
def length_too_large(post: Post) -> None:
    body = _said(post)
    post.head("200 OK", f"{JSON}Content-Length: {len(body) + 100}\r\n")
    post.connection.sendall(body)


@posted(CALL)
def length_too_small(post: Post) -> None:
    body = _said(post)
    post.head("200 OK", f"{JSON}Content-Length: {len(body) - 10}\r\n")
    post.connection.sendall(body)


@posted(CALL)
def length_that_is_none(post: Post) -> None:
    post.head("200 OK", f"{JSON}Content-Length: many\r\n")


@posted(CALL)
def chunks_cut(post: Post) -> None:
    post.head("200 OK", f"{JSON}Transfer-Encoding: chunked\r\n")
    post.connection.sendall(b'10\r\n{"jsonrpc": "2.0')


@posted(CALL)
def chunks_that_are_none(post: Post) -> None:
    post.head("200 OK", f"{JSON}Transfer-Encoding: chunked\r\n")
    post.connection.sendall(b"zz\r\n{}\r\n0\r\n\r\n")


def _bomb() -> bytes:
    """A GiB of spaces: one block that stands for itself, a thousand times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1024 + packer.flush()


@posted(CALL)
def compressed_in_bounds(post: Post) -> None:
    post.json(gzip.compress(_said(post)), "Content-Encoding: gzip\r\n")


@posted(CALL)
def a_bomb_as_json(post: Post) -> None:
    post.json(_bomb(), "Content-Encoding: gzip\r\n")


@posted(CALL)
def a_bomb_as_events(post: Post) -> None:
    post.whole("200 OK", f"{EVENTS}Content-Encoding: gzip\r\n", _bomb())


@posted(CALL)
def a_bomb_as_an_error(post: Post) -> None:
    post.whole("400 Bad Request", f"{JSON}Content-Encoding: gzip\r\n", _bomb())


@posted(*FIRST)
def a_bomb_at_first(post: Post) -> None:
    post.json(_bomb(), "Content-Encoding: gzip\r\n")


@posted(CALL)
def an_unknown_encoding(post: Post) -> None:
    post.json(_said(post), "Content-Encoding: snake\r\n")


@posted(CALL)
def comments_without_end(post: Post) -> None:
    post.head("200 OK", EVENTS)
    while True:
        post.connection.sendall(b": still here\n\n" * 1000)


@posted(CALL)
def rare_comments_without_end(post: Post) -> None:
    post.head("200 OK", EVENTS)
    while True:
        post.connection.sendall(b": still here\n\n")
        time.sleep(0.05)


@posted(CALL)
def events_of_other_names(post: Post) -> None:
    for event in (b"endpoint", b"error", b"", b"\x1b[31m"):
        post.write(b"event: " + event + b"\ndata: {}\n\n")
    post.say("it")


@posted(CALL)
def an_answer_under_another_name(post: Post) -> None:
    post.write(b"event: answer\ndata: " + _said(post) + b"\n\n")


@posted(CALL)
def an_event_without_end(post: Post) -> None:
    post.write(b"data: ")
    while True:
        post.write(b"x" * 65536)


@posted(CALL)
def an_event_of_many_lines(post: Post) -> None:
    while True:
        post.write(b"data: x\n" * 1000)


@posted(CALL)
def events_without_an_answer(post: Post) -> None:
    post.notify("notifications/message", level="info", data=1)


@posted(CALL)
def events_to_be_resumed(post: Post) -> None:
    post.write(b"id: 1\nretry: 1\ndata:\n\n")


@posted(CALL)
def events_to_be_resumed_next_year(post: Post) -> None:
    post.write(b"id: 1\nretry: 99999999999\ndata:\n\n")


@posted("GET", name="events_resumed_without_end")
def _resumed(post: Post) -> None:
    post.write(b"id: 1\nretry: 0\ndata:\n\n")


posted(CALL, name="events_resumed_without_end")(_resumed)


@posted(CALL)
def an_event_id_with_controls(post: Post) -> None:
    post.write(b"id: \x01\x1b[31m\xff\nretry: 1\ndata:\n\n")


def _initialized(post: Post, session: str) -> None:
    server = {"name": "zoo", "version": "0"}
    result = post.result({"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": server})
    post.json(json.dumps(result).encode(), f"Mcp-Session-Id: {session}\r\n")


for _name, _session in {"controls": "\x01\x7f", "spaces": " a b ", "latin1": "\xe9\xff", "1_mib": "x" * MIB}.items():

    @posted(INITIALIZE, name=f"a_session_of_{_name}")
    def _odd(post: Post, session: str = _session) -> None:
        _initialized(post, session)


@posted(CALL)
def another_session(post: Post) -> None:
    post.json(_said(post), "Mcp-Session-Id: another\r\n")


@posted(CALL)
def the_session_is_lost(post: Post) -> None:
    post.whole("404 Not Found")


@posted("GET", name="an_endless_get_stream")
def _streaming(post: Post) -> None:
    post.head("200 OK", EVENTS)
    while True:
        post.connection.sendall(b": still here\n\n" * 1000)
        time.sleep(0.01)


@posted("GET", name="a_get_stream_of_nonsense")
def _babbling(post: Post) -> None:
    for data in (b"nonsense", b"[]", b"\xff", b'{"jsonrpc": "2.0", "id": 1, "result": {"forged": 1}}'):
        post.write(b"data: " + data + b"\n\n")
    post.hang()


@posted("GET", name="a_get_stream_that_ends_at_once")
def _ending(post: Post) -> None:
    post.write(b"retry: 0\ndata:\n\n")


@posted("DELETE", name="never_lets_go")
def _clinging(post: Post) -> None:
    post.hang()
