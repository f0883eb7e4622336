"""The rehearsal's connections: small events leave at once."""

import contextlib
import os
import socket
from collections.abc import Iterator

import httpx2

from ripieno.models.protocols.openai_chat import PROTOCOL
from ripieno.servers.http.server import serve
from ripieno.testing import turn
from ripieno.testing.rehearsal.server import create_application
from ripieno.testing.scores import Score


def accepted(port: int) -> Iterator[socket.socket]:
    """This process's own ends of connections to a port, where it is the server."""
    for number in os.listdir("/dev/fd"):
        # Files that are no sockets, and those that were open for listing only; listeners have no peer.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(number))) as end:
            if end.getpeername() and end.getsockname()[1:2] == (port,):
                yield end


async def test_small_events_leave_at_once() -> None:
    """With Nagle's algorithm each event of a stream would wait until the client acknowledges the last one."""
    application = create_application(Score.of_turns([turn("Hello.", pace=60)]), [PROTOCOL])
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    async with serve(application) as url, httpx2.AsyncClient() as client:
        port = int(url.rpartition(":")[2])
        async with client.stream("POST", url + PROTOCOL.routes[0], json=body) as answer:
            assert answer.status_code == 200
            delays = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for end in accepted(port)]
    assert len(delays) == 1
    assert delays[0] != 0
