"""The transport ``unix-socket``: an MCP server that listens at a path, with one message a line."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ripieno.plugin import Key, Surroundings, Table, TemplateText


class UnixSocket:
    """The streams of messages over a socket of this machine."""

    table = Table(
        "[connection.unix-socket]",
        "The socket of an MCP server.",
        (Key("path", TemplateText(variables=True), "Its path.", example="/run/server.sock", required=True),),
    )

    @contextlib.asynccontextmanager
    async def open(
        self,
        settings: Mapping[str, Any],
        surroundings: Surroundings,  # noqa: ARG002
    ) -> AsyncGenerator[tuple[Any, Any], None]:
        # Imported here: the SDK takes most of a second.
        import anyio
        from anyio.streams.buffered import BufferedByteReceiveStream
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        given, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, taken = anyio.create_memory_object_stream[SessionMessage](0)

        async def receive() -> None:
            lines = BufferedByteReceiveStream(socket)
            async with given:  # Its end is the end of the connection.
                with contextlib.suppress(anyio.IncompleteRead, anyio.BrokenResourceError):
                    while True:
                        line = await lines.receive_until(b"\n", 16 * 2**20)
                        await given.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

        async def send() -> None:
            async for item in taken:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await socket.send(f"{line}\n".encode())

        async with contextlib.AsyncExitStack() as stack:
            for stream in (given, incoming, outgoing, taken):
                await stack.enter_async_context(stream)
            socket = await stack.enter_async_context(await anyio.connect_unix(settings["path"]))
            group = await stack.enter_async_context(anyio.create_task_group())
            group.start_soon(receive)
            group.start_soon(send)
            yield incoming, outgoing
            group.cancel_scope.cancel()


TRANSPORT = UnixSocket()
