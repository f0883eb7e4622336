"""Our transport for the SDK's client: messages as lines of a ``Server``. Imports the SDK."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from ripieno.origins.mcp.servers import Server

#: Requests of a server that may wait for their answers at the same time.
OWED = 1000
#: Looks at the result of a ``tools/list`` before the SDK does.
Screen = Callable[[dict[str, Any]], dict[str, Any]]


class Incoming:
    """The messages that a server writes, as the SDK reads them."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    async def receive(self) -> SessionMessage | Exception:
        message = await self._transport.receive()
        if message is None:
            raise anyio.EndOfStream
        return message

    async def aclose(self) -> None:
        """Nothing to do: the server closes its streams."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class Transport:
    """What ``mcp.Client`` enters. Entered and left by one task, once.

    The SDK refuses a whole page of tools for one that is broken (measured); ``screen`` takes that one out before.
    """

    def __init__(self, server: Server, screen: Screen) -> None:
        self._server = server
        self._screen = screen
        self._listings: set[str] = set()
        self._owed = 0
        self._outgoing: MemoryObjectSendStream[SessionMessage]
        self._queue: MemoryObjectReceiveStream[SessionMessage]
        self._outgoing, self._queue = anyio.create_memory_object_stream[SessionMessage](0)
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> tuple[Incoming, MemoryObjectSendStream[SessionMessage]]:
        self._sender = asyncio.create_task(self._send(), name=f"messages to {self._server.ensemble}")
        return Incoming(self), self._outgoing

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait((self._sender,))
        self._outgoing.close()
        self._queue.close()

    async def _send(self) -> None:
        """A task of its own, so that a call which is cancelled never leaves half a line behind."""
        async for item in self._queue:
            message = item.message
            if isinstance(message, JSONRPCRequest):
                if message.method == "tools/list":
                    self._listings.add(str(message.id))
            elif isinstance(message, JSONRPCResponse | JSONRPCError):
                self._owed -= 1
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            await self._server.write(f"{text}\n".encode())

    async def receive(self) -> SessionMessage | None:
        """The next message; None when there will be no more."""
        # The SDK starts a task for most messages, and does not wait between them.
        await asyncio.sleep(0)
        while (line := await self._server.read_line()) is not None:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                self._server.refuse(ascii(line[:100].decode(errors="replace")))
                continue
            if isinstance(message, JSONRPCRequest):
                self._owed += 1
                if self._owed > OWED:
                    self._server.give_up(f"sent {OWED} requests and read no answers")
                    continue
            if isinstance(message, JSONRPCResponse) and str(message.id) in self._listings:
                self._listings.discard(str(message.id))
                message = message.model_copy(update={"result": self._screen(message.result)})
            return SessionMessage(message)
        return None
