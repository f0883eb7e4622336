"""The MCP server over standard input and output, which the rest of the process can no longer use.

The SDK's transport reads unbounded lines, cannot be cancelled (measured), and claims the streams only after
everything that may print has started.
"""

import asyncio
import contextlib
import os
import select
from collections.abc import Callable

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, jsonrpc_message_adapter
from pydantic import ValidationError

from ripieno.origins.mcp.transports.framing import LINE_LIMIT, Lines
from ripieno.servers.mcp.messages import Refused, read
from ripieno.servers.mcp.server import EnsembleServer

_CHUNK = 64 * 1024
#: Seconds for the client to read the last messages.
GRACE = 1.0


async def serve_stdio(server: EnsembleServer, streams: tuple[int, int]) -> None:
    """Serves one client over the descriptors of ``claim_streams``, until it closes its end.

    A cancellation has the effect of a closed client: calls are cancelled, and have results.
    """
    reading, writing = streams
    server.has_one_client = True
    # The server closes its ends of the streams.
    arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    reader = asyncio.create_task(_read(reading, arriving, outgoing.clone()))
    writer = asyncio.create_task(_write(writing, leaving))
    serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
    try:
        # The writer ends first if its reader is gone.
        await asyncio.wait((serving, writer), return_when=asyncio.FIRST_COMPLETED)
    finally:
        with anyio.CancelScope(shield=True):
            # A cancelled SDK server would raise for the message in transit (measured).
            reader.cancel()
            await asyncio.wait((reader, serving))
            await asyncio.wait((writer,), timeout=GRACE)
            writer.cancel()
            await asyncio.wait((writer,))
    serving.result()


async def _read(
    descriptor: int,
    arriving: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Reads messages until the end. Invalid ones are answered at once."""
    lines = Lines()
    with arriving, refusals, contextlib.suppress(anyio.BrokenResourceError):  # The server has ended.
        while data := await _next(descriptor):
            for line in lines.feed(data):
                if line is not None and not line.strip():
                    continue
                try:
                    message = _message(line)
                except Refused as refused:
                    await refusals.send(SessionMessage(refused.answer))
                else:
                    await arriving.send(message)


async def _next(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    await _ready(descriptor, select.POLLIN, loop.add_reader, loop.remove_reader)
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # The terminal was closed.
        return b""


async def _ready(descriptor: int, mask: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    """Waits until a read or a small write will not block. Files never block, and event loops do not support them.

    The descriptors stay blocking, because the parent process may share them.
    """
    poll = select.poll()
    poll.register(descriptor, mask)
    if poll.poll(0):
        return
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _message(line: bytes | None) -> SessionMessage:
    """The message of a line; None is a line that is too long. Errors: ``Refused``."""
    if line is None:
        raise Refused(INVALID_REQUEST, f"A message may have at most {LINE_LIMIT} bytes.")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(read(line, limit=LINE_LIMIT), by_name=False))
    except ValidationError:
        raise Refused(INVALID_REQUEST, "The message is not JSON-RPC 2.0.", line) from None


async def _write(descriptor: int, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Writes messages until the server has no more, or the reader is gone."""
    with leaving, contextlib.suppress(OSError):
        async for item in leaving:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await _write_all(descriptor, f"{text}\n".encode())


async def _write_all(descriptor: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    rest = memoryview(data)
    while rest:
        await _ready(descriptor, select.POLLOUT, loop.add_writer, loop.remove_writer)
        # A writable pipe accepts at least this much (POSIX).
        rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
