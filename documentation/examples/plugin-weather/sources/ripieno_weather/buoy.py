"""``origin = "weather-buoy"``: one connection to a buoy, kept open. It answers each line with a line."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from types import MappingProxyType
from typing import Any

from ripieno.plugin import (
    Connected,
    ConnectionFailure,
    Context,
    EnsembleDescriptor,
    InvokerDescriptor,
    Key,
    NetworkFault,
    Number,
    Origin,
    OutcomeUnknownFault,
    Problem,
    Surroundings,
    Table,
    Text,
    while_connected,
)

CONNECTION = Table(
    title="[connection]",
    documentation="A buoy on this machine.",
    keys=(
        Key(name="port", kind=Number(whole=True, minimum=1, maximum=65535), documentation="Its port.", example=7000),
    ),
)
SENSOR = Table(
    title="[invocable]",
    documentation="A sensor of the buoy.",
    keys=(Key(name="sensor", kind=Text(choices=("water", "wind")), documentation="Which one.", example="water"),),
)


class Buoy:
    """The connection. Calls take turns; a call that got no answer ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._turns = asyncio.Lock()
        self.ended = asyncio.Event()

    async def ask(self, line: str) -> str:
        async with self._turns:
            if self.ended.is_set():
                raise NetworkFault("The buoy is not connected. Nothing was sent.")
            answer = b""
            try:
                self._writer.write(f"{line}\n".encode())
                answer = await self._reader.readline()
            finally:
                if not answer.endswith(b"\n"):
                    self.ended.set()
        if not answer.endswith(b"\n"):
            raise OutcomeUnknownFault("The buoy was lost before it answered.")
        return answer.decode().strip()


class BuoyOrigin(Origin):
    """An origin whose connection may be lost, and is opened again then."""

    name = "weather-buoy"
    tables = MappingProxyType({"connection": CONNECTION, "invocable": SENSOR})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        """Says what tables cannot say; here nothing."""
        del descriptor
        return ()

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        """Connects; ends with a ``ConnectionFailure`` when the connection is lost, and is entered again later."""
        del surroundings
        port = 7000 if descriptor.connection is None else descriptor.connection.settings.get("port", 7000)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise ConnectionFailure(descriptor.name, f"no buoy at port {port}: {error.strerror}") from error
        buoy = Buoy(reader, writer)

        async def lost() -> None:
            await buoy.ended.wait()
            raise ConnectionFailure(descriptor.name, "the buoy is gone")

        def bind(invoker: InvokerDescriptor) -> Any:
            sensor = invoker.invocable.settings["sensor"]

            async def read(_: Context, __: dict[str, Any]) -> str:
                return await buoy.ask(sensor)

            return read

        with contextlib.closing(writer):
            async with while_connected(lost()):
                yield Connected(connection=buoy, bind=bind)


ORIGIN = BuoyOrigin()
