"""A transport for the SDK's client: messages as lines of a process. Imports the SDK."""

import contextlib
from typing import Protocol

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from ripieno.origins.mcp.transports.framing import answered, too_many, unusable

#: Unanswered requests of a server.
OWED = 1000


class Wire(Protocol):
    """Lines in and out of a server process."""

    ensemble: str

    async def read_line(self) -> bytes | None:
        """The next line; None at the end. Each takes a turn of the event loop.

        The SDK starts a task for most messages, and does not wait between them.
        """

    async def write(self, data: bytes) -> None:
        """Writes all of it. A cancelled write leaves no part of it."""

    def refuse(self, what: str) -> None:
        """Counts a line that is not a message."""

    def give_up(self, reason: str) -> None:
        """Stops reading."""


class Incoming:
    """The messages of a server."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    async def receive(self) -> SessionMessage:
        message = await self._transport.receive()
        if message is None:
            raise anyio.EndOfStream
        return message

    async def aclose(self) -> None:
        """Does nothing: the server closes its streams."""


class Outgoing:
    """The messages to a server. Sending one takes no turn of the event loop if the server reads."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._transport.send(item.message)

    async def aclose(self) -> None:
        self._closed = True


class Transport:
    """The transport that ``mcp.Client`` enters. Entered and left by one task, once."""

    def __init__(self, server: Wire) -> None:
        self._server = server
        self._owed = 0
        self._outgoing = Outgoing(self)

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        return Incoming(self), self._outgoing

    async def __aexit__(self, *_: object) -> None:
        await self._outgoing.aclose()

    async def send(self, message: JSONRPCMessage) -> None:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._server.write(f"{text}\n".encode())
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._owed -= 1

    async def receive(self) -> SessionMessage | None:
        while (line := await self._server.read_line()) is not None:
            message = self._read(line)
            if message is None:
                continue
            if isinstance(message, JSONRPCRequest):
                self._owed += 1
                if self._owed > OWED:
                    self._server.give_up(f"sent {OWED} requests and read no answers")
                    continue
            return SessionMessage(message)
        return None

    def _read(self, line: bytes) -> JSONRPCMessage | None:
        """The message of a line; an error for an unusable answer; None for anything else."""
        if not too_many(line):
            # Most are answers, and the union of all messages takes twice as long. An escape may be in a key.
            answers = b'"method"' not in line and b'"error"' not in line and b"\\u" not in line
            with contextlib.suppress(ValidationError):
                if answers:
                    return JSONRPCResponse.model_validate_json(line, by_name=False)
                return jsonrpc_message_adapter.validate_json(line, by_name=False)
        self._server.refuse(ascii(line[:100].decode(errors="replace")))
        identifier = answered(line)
        return None if identifier is None else jsonrpc_message_adapter.validate_json(unusable(identifier))
