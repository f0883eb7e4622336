"""A way to a PostgreSQL server that a test can cut: requests arrive, and answers do not."""

import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Iterator

_SIZE = 1 << 16


class Way:
    """Connections through a port of this machine to the socket of a server."""

    def __init__(self, uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        (folder,) = urllib.parse.parse_qs(parts.query)["host"]
        self._server = f"{folder}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._cut = threading.Event()
        self._open: list[socket.socket] = []
        #: How many connections it has ended at once. It is counted before they end.
        self.refused = 0
        self.port: int = self._listener.getsockname()[1]
        self.address = parts._replace(netloc=f"postgres@127.0.0.1:{self.port}", query="").geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on, what is sent arrives, and its answer does not. New connections end at once."""
        self._cut.set()

    def restore(self) -> None:
        """Lets new connections through again."""
        self._cut.clear()

    def close(self) -> None:
        """Ends all connections."""
        self._listener.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut.is_set():
                    self.refused += 1
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += (client, server)
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_SIZE):
                if answers and self._cut.is_set():
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def way_to(uri: str) -> Iterator[Way]:
    """A way to the server at an address with a folder of its socket."""
    way = Way(uri)
    try:
        yield way
    finally:
        way.close()
