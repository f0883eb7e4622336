"""A server over HTTP at ``/ERA/BEHAVIOUR``. It prints its port.

Started as ``python -m tests.origins.hostile_mcp_servers.http_server``.
"""

import contextlib
import json
import socket
import socketserver
import struct
import threading
from typing import Any

from tests.origins.hostile_mcp_servers.exchanges import Exchange, known, respond

#: A reset instead of an orderly end.
_RESET = struct.pack("ii", 1, 0)


class Mailbox:
    """What clients answer to requests of this server."""

    def __init__(self) -> None:
        self._came = threading.Condition()
        self._replies: dict[str, dict[str, Any]] = {}

    def put(self, reply: dict[str, Any]) -> None:
        with self._came:
            self._replies[str(reply.get("id"))] = reply
            self._came.notify_all()

    def take(self, identifier: str) -> dict[str, Any]:
        with self._came:
            self._came.wait_for(lambda: identifier in self._replies)
            return self._replies.pop(identifier)


class Post(Exchange):
    """A request that came as a POST; its answer is a stream of events, begun by the first of them."""

    def __init__(self, era: str, request: dict[str, Any], connection: socket.socket, mailbox: Mailbox) -> None:
        super().__init__(era, request)
        self.connection = connection
        self._mailbox = mailbox
        self._begun = False
        self.headers: dict[str, str] = {}

    def frame(self, data: bytes) -> bytes:
        return b"event: message\ndata: " + data + b"\n\n"

    def write(self, data: bytes) -> None:
        if not self._begun:
            session = "Mcp-Session-Id: zoo\r\n" if self.request.get("method") == "initialize" else ""
            self.head("200 OK", f"Content-Type: text/event-stream\r\n{session}")
        self.connection.sendall(data)

    def head(self, status: str, headers: str = "") -> None:
        """The beginning of the answer; ``headers`` each end with a line break."""
        self._begun = True
        self.connection.sendall(f"HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n".encode("latin-1"))

    def whole(self, status: str, headers: str = "", body: bytes = b"") -> None:
        """All of an answer that is no stream."""
        self.head(status, f"{headers}Content-Length: {len(body)}\r\n")
        self.connection.sendall(body)

    def json(self, body: bytes, headers: str = "") -> None:
        self.whole("200 OK", f"Content-Type: application/json\r\n{headers}", body)

    def hang(self) -> None:
        while self.connection.recv(65536):
            pass

    def die(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        raise ConnectionAbortedError

    def wait_for_reply(self, identifier: str) -> dict[str, Any]:
        return self._mailbox.take(identifier)


class Handler(socketserver.StreamRequestHandler):
    """One connection, which is one request."""

    mailbox = Mailbox()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            self._handle()

    def _handle(self) -> None:
        verb, path, _ = self.rfile.readline().decode().split()
        headers: dict[str, str] = {}
        while (line := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        _, era, name = path.split("/")
        behaviours = known(name)
        body = self.rfile.read(int(headers.get("content-length", "0")))
        request = json.loads(body) if verb == "POST" else {}
        post = Post(era, request, self.connection, self.mailbox)
        post.headers = headers
        if verb in behaviours:
            behaviours[verb](post)
        elif verb == "DELETE":
            post.whole("200 OK")
        elif verb != "POST":
            post.whole("405 Method Not Allowed")
        elif "id" in request and "method" in request:
            respond(post, behaviours)
        else:
            if "method" not in request:
                self.mailbox.put(request)
            post.whole("202 Accepted")


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serves until it is killed."""
    from tests.origins.hostile_mcp_servers import http_behaviours  # noqa: F401

    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    # Behaviours are given the classes of the module by its name, not those of "__main__".
    from tests.origins.hostile_mcp_servers.http_server import main as run

    run()
